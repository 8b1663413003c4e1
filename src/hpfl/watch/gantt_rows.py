"""What edges were doing when, from `timeline.jsonl`, as columns."""

from collections.abc import Iterable
from typing import Any

from hpfl.watch.by_round import RoundLines
from hpfl.watch.shown import parsed

MOST_ROWS = 20_000
_COLUMNS = ("round", "edge", "phase", "start_s", "end_s", "base_round", "bits")


def gantt_of_round(timeline: RoundLines, number: int) -> dict[str, Any] | None:
    """The rows of one round; None where the run has none of it."""
    lines = timeline.of_round(number)
    return as_columns(lines[:MOST_ROWS]) if lines else None


def gantt_between(timeline: RoundLines, first: int, last: int) -> dict[str, Any] | None:
    """The rows of a stretch of rounds; where they are too many, whole rounds are left out evenly."""
    each = len(timeline.of_round(first)) or len(timeline.of_round(last))
    if not each:
        return None
    most_rounds = max(MOST_ROWS // each, 1)
    step = -(-(last - first + 1) // most_rounds)
    if step == 1:
        lines = list(timeline.between(first, last))
        if len(lines) <= MOST_ROWS:
            return {**as_columns(lines), "thinned": False, "stride": 1}
        step = -(-len(lines) // MOST_ROWS)
    some: list[bytes] = []
    for number in range(first, last + 1, step):
        some += timeline.of_round(number)[: MOST_ROWS - len(some)]
        if len(some) >= MOST_ROWS:
            break
    return {**as_columns(some), "thinned": True, "stride": step}


def as_columns(lines: Iterable[bytes]) -> dict[str, list[Any]]:
    """Rows as columns; a damaged line is left out."""
    rows = [row for row in map(parsed, lines) if row is not None and row.keys() >= set(_COLUMNS)]
    return {name: [row[name] for row in rows] for name in _COLUMNS}
