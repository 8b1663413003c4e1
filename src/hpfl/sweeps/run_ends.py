"""What ends a run early, in plain data: a target that it has reached, a limit, or that it is behind those before it.

`{"reach": [0.9, "personalised_accuracy"], "most": {"time_s": 60}, "keep_up": {...}}`; each may be left out. `keep_up`
has `by` (`time_s` or `round`), `metric`, `less` (whether less is better), and a level for each moment, in order: a run
whose best value at an evaluation is worse than the level of the last moment before it has fallen behind.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from hpfl.reporting.summary import total
from hpfl.reporting.targets import Row, Target

ADDED = ("energy_j", "uplink_bits", "downlink_bits")
"""Columns that a limit takes the sum of; of others, the last value."""


def has_ended(rows: Sequence[Row], ends: Mapping[str, Any]) -> bool:
    """Whether a run is over with its last row."""
    if not ends:
        return False
    if any(spent(rows, column) >= limit for column, limit in ends.get("most", {}).items()):
        return True
    reach = ends.get("reach")
    if reach and rows[-1].get(reach[1]) is not None and Target(*reach).reached(rows) is not None:
        return True
    return fell_behind(rows, ends.get("keep_up"))


def spent(rows: Sequence[Row], column: str) -> float:
    """How much of a column a run has used; nothing where that is not known."""
    if not rows:
        return 0.0
    return (total(rows, column) if column in ADDED else rows[-1].get(column)) or 0.0


def fell_behind(rows: Sequence[Row], keep_up: Mapping[str, Any] | None) -> bool:
    """Whether the last row is an evaluation at which the best so far is worse than it should be."""
    if not keep_up or not rows or rows[-1].get(keep_up["metric"]) is None:
        return False
    place = bisect_right(keep_up["at"], rows[-1][keep_up["by"]]) - 1
    if place < 0:
        return False
    known = [row[keep_up["metric"]] for row in rows if row.get(keep_up["metric"]) is not None]
    level = keep_up["level"][place]
    return bool(min(known) > level if keep_up["less"] else max(known) < level)
