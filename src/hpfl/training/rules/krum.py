"""Rules `krum` and `multi-krum`: the update, or updates, whose nearest neighbours are nearest."""

from collections.abc import Sequence

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.rules.rows import columns, even_shares, of_finite, summed


class KrumOptions(Options):
    """How many may be hostile."""

    hostile: int = option(1, "f: how many of the updates may be hostile; it takes 2 f + 3 at least", ge=0)


class MultiKrumOptions(KrumOptions):
    """How many may be hostile, and how many count."""

    kept: int = option(0, "m: how many updates are averaged; 0: all but f + 2", ge=0)


def fewest(options: KrumOptions) -> int:
    """`2 f + 3`."""
    return 2 * options.hostile + 3


def fewest_of_several(options: MultiKrumOptions) -> int:
    """`2 f + 3`, and no fewer than are averaged."""
    return max(fewest(options), options.kept + options.hostile + 2 if options.kept else 0)


@part(options=KrumOptions, weighs=False, needs=fewest)
@of_finite
def krum(contributions: Sequence[Contribution], state: RuleState, *, options: KrumOptions) -> Combined:
    """The one update whose n - f - 2 nearest others are nearest (Blanchard et al., 2017).

    `d = u_i with i = argmin_i sum of |u_i - u_j|^2 over the n - f - 2 nearest j`: section 3 of "Machine learning with
    adversaries: Byzantine tolerant gradient descent", NeurIPS 2017; of equals the first. In a round with fewer than
    2 f + 3 updates f is as large as they allow, and of two there is no telling: they are averaged. Weights are not
    read.
    """
    return _chosen(contributions, state, hostile=options.hostile, kept=1)


@part(options=MultiKrumOptions, weighs=False, needs=fewest_of_several)
@of_finite
def multi_krum(contributions: Sequence[Contribution], state: RuleState, *, options: MultiKrumOptions) -> Combined:
    """The mean of the m updates whose n - f - 2 nearest others are nearest (Blanchard et al., 2017).

    `m = n - f - 2` by default, the most for which El Mhamdi et al. ("The hidden vulnerability of distributed learning
    in Byzantium", ICML 2018) prove it robust. Too few updates are dealt with as `krum` does. Weights are not read.
    """
    return _chosen(contributions, state, hostile=options.hostile, kept=options.kept)


def _chosen(contributions: Sequence[Contribution], state: RuleState, *, hostile: int, kept: int) -> Combined:
    """The mean of the `kept` best (0: n - f - 2)."""
    count = len(contributions)
    if count < 3:
        shares = even_shares(contributions)
        return Combined(summed(contributions, shares), shares, state)
    hostile = min(hostile, (count - 3) // 2)
    neighbours = count - hostile - 2
    best = _by_score(_scores(squared_distances(contributions), neighbours))[: min(kept or neighbours, neighbours)]
    shares = np.zeros(count)
    shares[best] = 1.0 / len(best)
    return Combined(summed(contributions, shares), shares, state)


def squared_distances(contributions: Sequence[Contribution]) -> FloatArray:
    """`|u_i - u_j|^2` of all pairs, [n, n], from inner products in float64; a huge update spoils its own row alone."""
    count = len(contributions)
    gram = torch.zeros(count, count, dtype=torch.float64)
    for _, values in columns(contributions):
        wide = values.to(torch.float64)
        gram += (wide.T @ wide).cpu()
    own = gram.diagonal()
    return np.asarray((own[:, None] + own[None, :] - 2.0 * gram).clamp_(min=0.0).numpy())


def _scores(squared: FloatArray, neighbours: int) -> FloatArray:
    others = squared.copy()
    np.fill_diagonal(others, np.inf)
    return np.asarray(np.sort(others, axis=1)[:, :neighbours].sum(axis=1))


def _by_score(scores: FloatArray) -> IntArray:
    return np.argsort(scores, kind="stable")
