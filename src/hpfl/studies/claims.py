"""What the paper claims, as statements with an interval, and the verdict that the runs come to."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpfl.reporting.intervals import Interval, arithmetic

Verdict = Literal["holds", "does not hold", "inconclusive"]
LEAST_SEEDS = 5
"""With fewer seeds nothing is decided."""
FALSE_SHARE = 0.05
"""Of all decided statements of a report, the share that may be expected to be decided wrongly."""

CLAIMS: Mapping[str, str] = {
    "C1": "In every selection mode HPFL reaches lower training loss and higher accuracy than HFL.",
    "C1 adapted": "The same with both systems adapted as suits each: step and number of steps by validation samples.",
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
    "C1 adapted": ("mnist", "cifar10"),
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
    level: float = FALSE_SHARE
    """The p value up to which it counts as decided; `controlled` lowers it where many statements are made."""

    @property
    def interval(self) -> Interval | None:
        """The mean over the seeds, with its 95% interval."""
        return arithmetic(self.values)

    @property
    def verdict(self) -> Verdict:
        """Holds where the interval at its level lies wholly in the claimed range, does not where wholly outside."""
        if len(self.values) < LEAST_SEEDS or self.p_value > self.level:
            return "inconclusive"
        inside, outside = self._tails
        return "holds" if inside < outside else "does not hold"

    @property
    def p_value(self) -> float:
        """The smallest share `p` for which the interval that covers `1 - p` lies on one side of the range's ends."""
        return min(1.0, 2.0 * min(self._tails)) if len(self.values) > 1 else 1.0

    @property
    def _tails(self) -> tuple[float, float]:
        """One-sided chances of such values if the truth lay at an end of the range: seen from inside, and from outside.

        Student's t; inside both ends must be cleared, outside one.
        """
        mean, count = statistics.fmean(self.values), len(self.values)
        error = statistics.stdev(self.values) / math.sqrt(count)
        ends = [mean - self.least, self.most - mean]
        clear = [_upper_tail(end, error, count - 1) for end in ends if math.isfinite(end)]
        return max(clear), min(_upper_tail(-end, error, count - 1) for end in ends if math.isfinite(end))

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
            "p_value": self.p_value,
            "least": None if math.isinf(self.least) else self.least,
            "most": None if math.isinf(self.most) else self.most,
        }


def _upper_tail(distance: float, error: float, freedom: int) -> float:
    if error == 0.0:
        return 0.0 if distance > 0 else 1.0
    from scipy.special import stdtr  # Student's t; SciPy takes long to import

    return float(stdtr(freedom, -distance / error))


def controlled(statements: Sequence[Statement]) -> list[Statement]:
    """The statements at the level that keeps the expected share of wrong ones among the decided to `FALSE_SHARE`.

    Benjamini and Hochberg (1995): of `n` p values in rising order the largest with `p_i <= (i / n) FALSE_SHARE` is the
    level of all. At a fixed 95 % one statement in twenty would be decided by chance alone.
    """
    p_values = sorted(one.p_value for one in statements if len(one.values) >= LEAST_SEEDS)
    count = len(p_values)
    passing = [p for rank, p in enumerate(p_values, start=1) if p <= FALSE_SHARE * rank / count]
    level = passing[-1] if passing else -1.0
    return [replace(one, level=min(one.level, level)) for one in statements]


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
