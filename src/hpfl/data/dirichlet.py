"""Partitioner `dirichlet`: the label proportions of every UE are a draw from a symmetric Dirichlet distribution."""

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.data.label_placement import PartitionSettings, apportion, check_total, fit_to_classes, place
from hpfl.data.shards import PartitionError, Shards
from hpfl.rng import Streams

_LEAST_WEIGHT = 1e-12  # so that a UE whose labels have all run out can still be given others


def partition_dirichlet(
    targets: IntArray, num_classes: int, sizes: IntArray, *, settings: PartitionSettings, streams: Streams
) -> Shards:
    """Shards whose label proportions are Dirichlet(`concentration`); a label that runs out is replaced by others."""
    if not 0.0 < settings.concentration < np.inf:
        raise PartitionError(f"data.concentration is {settings.concentration}; it must be positive and finite")
    available = np.bincount(targets, minlength=num_classes)
    weights = draw_proportions(len(sizes), num_classes, concentration=settings.concentration, streams=streams)
    weights = np.where(available > 0, np.maximum(weights, _LEAST_WEIGHT), 0.0)
    counts = apportion(sizes, weights, streams.at("partition-remainder"))
    if settings.disjoint:
        check_total(sizes, len(targets))
        counts = fit_to_classes(counts, weights, available=available, keep=0, streams=streams)
    return place(counts, targets, disjoint=settings.disjoint, streams=streams)


def draw_proportions(num_ues: int, num_classes: int, *, concentration: float, streams: Streams) -> FloatArray:
    """Label proportions of every UE, float64[N, C], rows sum to one.

    Normalised Gamma(a) draws, in logarithms because a small `a` underflows: Gamma(a) = Gamma(a + 1) U^(1/a).
    """
    from scipy.special import gammaincinv  # takes long to import

    shape = (num_ues, num_classes)
    gamma = gammaincinv(concentration + 1.0, streams.at("partition-gamma").uniform(num_ues * num_classes))
    power = np.log1p(-streams.at("partition-power").uniform(num_ues * num_classes)) / concentration
    log_draw = (np.log(np.maximum(gamma, np.finfo(np.float64).tiny)) + power).reshape(shape)
    draw = np.exp(log_draw - log_draw.max(axis=1, keepdims=True))
    return np.asarray(draw / draw.sum(axis=1, keepdims=True), dtype=np.float64)
