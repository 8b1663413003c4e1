"""From the runs of a study to flat tables: every evaluation, every round, final values, and means over seeds."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hpfl.reporting.intervals import arithmetic
from hpfl.studies.study import Found, Rows, TableRow

EVALUATED = ("meta_loss", "loss", "personalised_accuracy", "global_accuracy", "personalised_accuracy_p10")
FINAL_SHARE = 0.1
"""A final value is the mean over the last tenth of a run."""


def per_round(found: Iterable[Found], columns: Sequence[str]) -> Rows:
    """One row per run and round: labels, round, and the columns."""
    return [
        {**part["labels"], "round": number, **{name: part["rounds"][name][number - 1] for name in columns}}
        for part in found
        for number in range(1, len(part["rounds"]["time_s"]) + 1)
    ]


def evaluations(found: Iterable[Found]) -> Rows:
    """One row per run and evaluation: labels, round, simulated seconds, losses and accuracies."""
    return [row for row in per_round(found, ("time_s", *EVALUATED)) if row["meta_loss"] is not None]


def finals(found: Iterable[Found], columns: Sequence[str] = EVALUATED) -> Rows:
    """One row per run: labels, and the mean of each column over the last tenth of its rounds.

    A run that diverged has no final values: statements then lack a seed, and with it a verdict.
    """
    return [_final(part, columns) for part in found]


def _final(part: Found, columns: Sequence[str]) -> dict[str, Any]:
    values = {name: None if part["diverged"] else _tail(part["rounds"][name]) for name in columns}
    return {**part["labels"], **values, "rounds": len(part["rounds"]["time_s"]), "diverged": bool(part["diverged"])}


def _tail(values: Sequence[float | None]) -> float | None:
    """The mean over the last tenth of the rounds, or the last value if none of those has one."""
    count = max(1, math.ceil(FINAL_SHARE * len(values)))
    there = [value for value in values if value is not None]
    late = [value for value in values[-count:] if value is not None] or there[-1:]
    return sum(late) / len(late) if late else None


def bands(rows: Iterable[TableRow], by: Sequence[str], columns: Sequence[str]) -> Rows:
    """Means over the seeds, with 95% intervals, of rows alike in `by`: `x`, `x_low`, `x_high` for each column."""
    groups: dict[tuple[Any, ...], list[TableRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [dict(zip(by, key, strict=True)) | _band(members, columns) for key, members in groups.items()]


def _band(members: Sequence[TableRow], columns: Sequence[str]) -> TableRow:
    out: TableRow = {}
    for name in columns:
        out |= band(name, [row[name] for row in members if row[name] is not None])
    return out | {"seeds": len(members)}


def band(name: str, values: Sequence[float]) -> TableRow:
    """Mean and 95% interval of a column's values, as the columns `x`, `x_low` and `x_high`."""
    found = arithmetic(values)
    ends = (found.mean, found.low, found.high) if found else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def where(rows: Iterable[TableRow], **wanted: Any) -> Rows:
    """The rows with these labels."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def distinct(rows: Iterable[TableRow], name: str) -> list[Any]:
    """The values of a label, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))


def differences(ours: Iterable[TableRow], theirs: Iterable[TableRow], column: str) -> tuple[float, ...]:
    """Ours minus theirs, seed by seed, for the seeds that both have."""
    other = {row["seed"]: row[column] for row in theirs}
    pairs = [(row[column], other.get(row["seed"])) for row in ours]
    return tuple(mine - his for mine, his in pairs if mine is not None and his is not None)


def slopes(rows: Iterable[TableRow], x: str, column: str) -> tuple[float, ...]:
    """For each seed, how much `column` grows from the least `x` to the greatest, along the straight line that fits."""
    return by_seed(rows, lambda members: rise([row[x] for row in members], [row[column] for row in members]))


def by_seed(rows: Iterable[TableRow], figure: Callable[[list[TableRow]], float | None]) -> tuple[float, ...]:
    """A figure of each seed's rows, for the seeds where it can be had."""
    groups: dict[int, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(row["seed"], []).append(row)
    found = (figure(members) for _, members in sorted(groups.items()))
    return tuple(value for value in found if value is not None and math.isfinite(value))


def rise(x: Sequence[float | None], y: Sequence[float | None]) -> float | None:
    """The rise of the least-squares line of `y` over the range of `x`."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    across = [a for a, _ in pairs]
    if len(set(across)) < 2:
        return None
    values = [b for _, b in pairs]
    risen = float(np.polyfit(across, values, 1)[0] * (max(across) - min(across)))
    return 0.0 if abs(risen) < 1e-9 * max(map(abs, values)) else risen  # rounding is no rise
