"""The nodes of a deployment as its cloud last told of them: state, rounds, planned and measured seconds, refusals."""

from pathlib import Path
from typing import Any

from hpfl.watch.shown import number, parsed, text

STATUS = "status.json"
"""Written by a deployed cloud into its folder a few times a second."""
MOST_NODES = 2_000
_LARGEST_BYTES = 1 << 26
_NUMBERS = ("round", "staleness", "planned_s", "measured_s", "received_bytes", "refused", "misses")


def nodes_of(folder: Path) -> dict[str, Any] | None:
    """The rows of `status.json` as columns; None where a run has none."""
    try:
        with (folder / STATUS).open("rb") as file:
            status = parsed(file.read(_LARGEST_BYTES))
    except OSError:
        return None
    return None if status is None else node_columns(status)


def node_columns(status: dict[str, Any]) -> dict[str, Any] | None:
    """The rows of a cloud's board as columns, at most `MOST_NODES`; names and states are texts, never markup."""
    rows = status.get("nodes")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    shown = rows[:MOST_NODES]
    return {
        "round": number(status.get("round")),
        "rounds": number(status.get("rounds")),
        "count": len(rows),
        "node": [text(row.get("node", "")) for row in shown],
        "state": [text(row.get("state", "")) for row in shown],
        **{name: [number(row.get(name)) for row in shown] for name in _NUMBERS},
        "over_planned": [_ratio(row) for row in shown],
    }


def _ratio(row: dict[str, Any]) -> float | None:
    planned_s, measured_s = number(row.get("planned_s")), number(row.get("measured_s"))
    return measured_s / planned_s if planned_s and measured_s is not None else None
