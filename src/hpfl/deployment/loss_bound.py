"""Which figures without a largest value, such as losses, are believed: none far above what most UEs have reported."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from prometheus_client import Counter

from hpfl.arrays import BoolArray, FloatArray
from hpfl.deployment.logs import log

_LEAST = 3
"""UEs from which on one can be called an outlier."""


class LossBound:
    """A figure may be `ratio` times a median: that of this evaluation, or the largest of those before; 0: any.

    The ones before count because losses of a model that has learnt are small, and those of a UE that it does not suit
    are still what they were. Sizes are compared, so that losses below zero have a bound too.
    """

    def __init__(
        self,
        columns: Sequence[str],
        ranges: Sequence[tuple[float, float]],
        ratio: float,
        refused: Counter | None = None,
    ) -> None:
        self._columns, self._ratio, self._refused = columns, ratio, refused
        limits = np.array(ranges, dtype=np.float64).reshape(-1, 2)
        self._unbounded: BoolArray = np.asarray(~np.isfinite(limits).all(axis=1))
        self._largest: FloatArray = np.zeros(len(self._unbounded))

    def believed(self, figures: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
        """Figures by UE without those of UEs that are far above the others; who they are is said."""
        if not self._ratio or len(figures) < _LEAST:
            return dict(figures)
        sizes = np.where(self._unbounded, np.abs(np.stack(list(figures.values()))), 0.0)
        sizes = np.nan_to_num(sizes)  # what was not measured
        self._largest = np.maximum(self._largest, np.sort(sizes, axis=0)[len(figures) // 2])
        most = self._ratio * self._largest
        beyond = dict(zip(figures, (sizes > most) & (most > 0.0), strict=True))
        for ue, outside in beyond.items():
            if outside.any():
                self._refuse(ue, figures[ue], outside, most)
        return {ue: row for ue, row in figures.items() if not beyond[ue].any()}

    def _refuse(self, ue: int, row: FloatArray, outside: BoolArray, most: FloatArray) -> None:
        at = int(np.flatnonzero(outside)[0])
        reason = f"{self._columns[at]} is {row[at]:.4g}, at most {most[at]:.4g} is believed beside those of other UEs"
        log("figures refused", level=logging.WARNING, ue=ue, code="range", reason=reason)
        if self._refused is not None:
            self._refused.labels("range").inc()
