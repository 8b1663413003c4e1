"""What the paper claims, as statements with an interval, and the verdict that the runs come to."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hpfl.reporting.intervals import Interval, arithmetic

Verdict = Literal["holds", "does not hold", "inconclusive"]
LEAST_SEEDS = 5
"""With fewer seeds nothing is decided."""

CLAIMS: Mapping[str, str] = {
    "C1": "In every selection mode HPFL reaches lower training loss and higher accuracy than HFL.",
    "C2": "Full selection is best, random worst, the proposed between.",
    "C3": "On MNIST the proposed selection is almost as good as full selection.",
    "C4": "The larger rho, the better loss and accuracy.",
    "C5": "Latency and importance per round fall as training goes on.",
    "C6": "At convergence both are flat in rho for full and random selection, and rise with rho for the proposed.",
    "C7": "The larger l, the worse the convergence, more so on CIFAR-10.",
    "C8": "Planning time grows linearly with the scheduled edges, SHPFL's does not; it is at least 60 times SHPFL's, "
    "and far below a round's latency.",
    "C9": "Planning time and loss drop rise and fall together.",
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "C1": ("mnist", "cifar10"),
    "C2": ("mnist", "cifar10"),
    "C4": ("mnist", "cifar10"),
    "C5": ("mnist", "cifar10"),
    "C7": ("mnist", "cifar10"),
    "C8": ("mnist", "cifar10"),
}
"""Data sets that a claim speaks of: it does not hold by the runs of one of them alone."""
_RANK: Mapping[Verdict, int] = {"does not hold": 0, "inconclusive": 1, "holds": 2}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A figure, one value per seed, that the claim says lies between `least` and `most`.

    Accuracies are shares of 1 here as in every table; unit `points` says that a page prints their differences in
    hundredths.
    """

    claim: str
    text: str
    unit: str
    values: tuple[float, ...]
    data: str = ""
    """The data set it is about; a sample of one (`mnist-mini`) counts as that."""
    least: float = -math.inf
    most: float = math.inf

    @property
    def interval(self) -> Interval | None:
        """The mean over the seeds, with its 95% interval."""
        return arithmetic(self.values)

    @property
    def verdict(self) -> Verdict:
        """Holds where the whole interval lies in the claimed range, does not where all of it lies outside."""
        found = self.interval
        if found is None or found.low is None or found.high is None or found.count < LEAST_SEEDS:
            return "inconclusive"
        if found.low > self.least and found.high < self.most:
            return "holds"
        return "does not hold" if found.high <= self.least or found.low >= self.most else "inconclusive"

    @property
    def room(self) -> float:
        """How far the interval's nearest end lies inside the range, in half-widths; orders parts by how sure."""
        found = self.interval
        if found is None or found.low is None or found.high is None:
            return -math.inf
        half = max((found.high - found.low) / 2, 1e-12 * max(abs(found.mean), 1.0))
        return min(found.low - self.least, self.most - found.high) / half

    def to_json(self) -> dict[str, Any]:
        """Flat, for `claims.json` and `statements.csv`."""
        found = self.interval
        return {
            "claim": self.claim,
            "data": self.data,
            "statement": self.text,
            "unit": self.unit,
            "verdict": self.verdict,
            "estimate": found.mean if found else None,
            "low": found.low if found else None,
            "high": found.high if found else None,
            "seeds": len(self.values),
            "least": None if math.isinf(self.least) else self.least,
            "most": None if math.isinf(self.most) else self.most,
        }


def judge(statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """Each claim with the verdict of its parts: it holds if all do, and does not if one does not.

    Without statements about every data set that it speaks of, a claim cannot hold.
    `estimate`, `low` and `high` are those of the part that decides (`decided_by`): the least sure one.
    """
    by_claim: dict[str, list[Statement]] = {}
    for statement in statements:
        by_claim.setdefault(statement.claim, []).append(statement)
    return [_judged(claim, by_claim[claim]) for claim in CLAIMS if claim in by_claim]


def _remark(decisive: Statement, absent: Sequence[str]) -> str:
    if absent:
        return f" (holds, but nothing was run on {' and '.join(absent)})"
    few = len(decisive.values) < LEAST_SEEDS
    return f" (seeds: {len(decisive.values)}; a verdict needs {LEAST_SEEDS})" if few else ""


def _judged(claim: str, parts: Sequence[Statement]) -> dict[str, Any]:
    decisive = min(parts, key=lambda part: (_RANK[part.verdict], part.room))
    figures = decisive.to_json()
    absent = _absent(claim, parts) if decisive.verdict == "holds" else []
    return {
        "id": claim,
        "claim": CLAIMS[claim],
        "verdict": "inconclusive" if absent else decisive.verdict,
        **{name: figures[name] for name in ("estimate", "low", "high", "unit", "seeds")},
        "decided_by": decisive.text + _remark(decisive, absent),
        "parts": [part.to_json() for part in parts],
    }


def _absent(claim: str, parts: Sequence[Statement]) -> list[str]:
    there = {part.data.removesuffix("-mini") for part in parts if part.values}
    return [data for data in NEEDED.get(claim, ()) if data not in there]
