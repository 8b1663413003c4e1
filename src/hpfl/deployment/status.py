"""What everybody is doing now, as rows for a live table: one per node, and nothing that a table does not show."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.cloud import Cloud
from hpfl.deployment.node_names import default_name
from hpfl.deployment.round_timing import Timing
from hpfl.deployment.server_metrics import total_of
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Run, Watcher

STATUS = "status.json"
_EVERY_S = 0.3


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """One node; seconds are those of its last round, of the plan's clock.

    `refused` are its messages that were refused, all of them in the cloud's row; `misses` are answers that did not come
    to the cloud in time.
    """

    node: str
    state: str
    round: int | None = None
    staleness: int | None = None
    planned_s: float | None = None
    measured_s: float | None = None
    received_bytes: int = 0
    refused: int = 0
    misses: int | None = None


class Board(Watcher):
    """Collects rows from the cloud and, while it is open, writes them to `status.json` a few times a second."""

    def __init__(self, cloud: Cloud, *, edges: Mapping[str, int], num_ues: int) -> None:
        self._cloud = cloud
        self._edges = edges
        self._num_ues = num_ues
        self._latest: Timing | None = None
        self._seconds: dict[str, tuple[float, float]] = {}
        self._delivered: dict[int, int] = {}
        self._rounds = (0, 0)
        self._record: dict[str, Any] = {}
        self.shown = "{}"

    def took(self, timing: Timing) -> None:
        """Note a round's seconds."""
        self._latest = timing
        for edge, planned_s in timing.edge_planned_s.items():
            self._seconds[f"edge {edge}"] = (planned_s, timing.edge_measured_s[edge])
        for ue, planned_s in timing.ue_planned_s.items():
            self._seconds[f"ue {ue}"] = (planned_s, timing.ue_measured_s[ue])
            self._delivered[ue] = self._delivered.get(ue, 0) + timing.ue_bytes

    def started(self, run: Run) -> None:
        """Note how far the run is when it begins or goes on."""
        self._rounds = (run.state.round, run.rounds)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Note how far the run is now, and what the round came to."""
        self._rounds = (state.round, self._rounds[1])
        self._record = {name: value for name, value in record.to_json().items() if not isinstance(value, list)}

    def rows(self) -> list[BoardRow]:
        """The cloud, the edges, the UEs."""
        done, total = self._rounds
        state = "finished" if done >= total > 0 else "running"
        seconds = (self._latest.planned_s, self._latest.measured_s) if self._latest else (None, None)
        received = sum(child.stream.received_bytes for child in self._cloud.hub.children.values())
        first = BoardRow(
            node="cloud",
            state=state,
            round=done,
            planned_s=seconds[0],
            measured_s=seconds[1],
            received_bytes=received,
            refused=total_of(self._cloud.metrics.refused),
            misses=total_of(self._cloud.metrics.misses),
        )
        return [first, *map(self._edge_row, self._edges), *self._ue_rows()]

    def _edge_row(self, name: str) -> BoardRow:
        number = self._edges[name]
        child, held = self._cloud.hub.children.get(number), self._cloud.held.get(number)
        planned_s, measured_s = self._seconds.get(f"edge {number}", (None, None))
        return BoardRow(
            node=name,
            state=self._cloud.state_of(number),
            round=held.tag.base_round if held else None,
            staleness=max(self._rounds[0] - held.tag.base_round, 0) if held else None,
            planned_s=planned_s,
            measured_s=measured_s,
            received_bytes=child.stream.received_bytes if child else 0,
            refused=child.refusals if child else 0,
        )

    def _ue_rows(self) -> list[BoardRow]:
        """All UEs, under the names that their edges say."""
        round_of = {ue: held.tag.base_round for held in self._cloud.held.values() for ue in held.sketch.ues.tolist()}
        told = {"left out": self._cloud.ues_out, "began anew": self._cloud.ues_anew}
        state_of = dict.fromkeys(self._cloud.newcomers, "held out")
        state_of |= {ue: state for state, by_edge in told.items() for ues in by_edge.values() for ue in ues}
        return [self._ue_row(number, round_of.get(number), state_of.get(number)) for number in range(self._num_ues)]

    def _ue_row(self, number: int, base_round: int | None, state: str | None) -> BoardRow:
        planned_s, measured_s = self._seconds.get(f"ue {number}", (None, None))
        return BoardRow(
            node=self._cloud.ue_names.get(number) or default_name(number),
            state=state or ("computing" if base_round is None else "ready"),
            round=base_round,
            planned_s=planned_s,
            measured_s=measured_s,
            received_bytes=self._delivered.get(number, 0),
        )

    @contextmanager
    def on_show(self, out: Path, loop: LoopThread) -> Iterator[None]:
        """Write the rows to `out` whenever they have changed, and once more at the end."""
        writing = loop.start(self.keep_writing(out))
        try:
            yield
        finally:
            writing.cancel()
            loop.run(self._write_last(out))  # in the loop as the others are: two writers would take each other's file

    async def _write_last(self, out: Path) -> None:
        write_status(out, self.text())

    async def keep_writing(self, out: Path) -> None:
        """Write the rows whenever they have changed, until cancelled."""
        before = ""
        while True:
            text = self.text()
            if text != before:
                write_status(out, text)
                before = text
            await asyncio.sleep(_EVERY_S)

    def text(self) -> str:
        """The rows as JSON, and the numbers of the last round; `shown` is the newest of these texts."""
        done, total = self._rounds
        rows = [asdict(row) for row in self.rows()]
        self.shown = json.dumps({"round": done, "rounds": total, "record": self._record, "nodes": rows})
        return self.shown


def write_status(out: Path, text: str) -> None:
    """Replace `status.json` at once."""
    partial = out / f".{STATUS}.partial"
    partial.write_text(text, encoding="utf-8")
    partial.replace(out / STATUS)


def read_status(out: Path) -> dict[str, Any] | None:
    """The newest status, where there is one."""
    try:
        status = json.loads((out / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return status if isinstance(status, dict) and _is_told(status) else None


def _is_told(status: dict[str, Any]) -> bool:
    """Whether a status has what a table shows, so that one that is damaged is none."""
    nodes, names = status.get("nodes"), {row.name for row in fields(BoardRow)}
    counts = all(isinstance(status.get(name), int) for name in ("round", "rounds"))
    return counts and isinstance(nodes, list) and all(isinstance(row, dict) and row.keys() >= names for row in nodes)
