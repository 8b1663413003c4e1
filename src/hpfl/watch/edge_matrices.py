"""Staleness, importance and schedule of every edge over rounds, for heat maps."""

from typing import Any

from hpfl.reporting.folder import SCENES
from hpfl.watch.by_round import RoundLines, round_of
from hpfl.watch.columns import chosen_rounds
from hpfl.watch.shown import parsed
from hpfl.watch.watched_run import WatchedRun

MOST_ROUNDS = 1_000
_EDGES = b'"edges": '
MOST_CELLS = 400_000
"""Edges times rounds; with more edges there are fewer rounds."""


def edges_between(run: WatchedRun, first: int | None, last: int | None) -> dict[str, Any]:
    """Matrices with a row for each edge and a column for each round shown; what is not recorded is null."""
    with run.lock:
        run.refresh()
        count, num_edges = len(run.rounds), run.facts.num_edges
        start, end = max(first or 1, 1), min(last or count, count)
        most = max(min(MOST_ROUNDS, MOST_CELLS // max(num_edges, 1)), 1)
        step = max(-(-(end - start + 1) // most), 1)
        rounds = list(range(start, end + 1)) if step == 1 else chosen_rounds(start, end, step)
        records = [run.rounds.record(number) or {} for number in rounds]
    scenes = _scenes(RoundLines(run.folder / SCENES), rounds, step)
    edges = range(max(num_edges, *(max(r.get("scheduled") or [-1]) + 1 for r in records), 0))
    called = [set(record.get("scheduled") or ()) for record in records]
    return {
        "rounds": rounds,
        "scheduled": [[int(edge in those) for those in called] for edge in edges],
        "staleness": _matrix(scenes, "staleness", len(edges)),
        "importance": _matrix(scenes, "importance", len(edges)),
        "stride": step,
    }


def _scenes(lines: RoundLines, rounds: list[int], step: int) -> list[dict[str, Any]]:
    """The scenes' columns of edges, in the order of the rounds; empty where a round has none."""
    if not rounds:
        return []
    found = lines.between(rounds[0], rounds[-1], most_bytes=1 << 28) if step == 1 else lines.some(rounds)
    known = {round_of(line): _edges_in(line) for line in found}
    return [known.get(number) or {} for number in rounds]


def _edges_in(line: bytes) -> dict[str, Any] | None:
    """The columns of edges, without reading the rest of the line: they have no object within."""
    start = line.find(_EDGES) + len(_EDGES)
    return parsed(line[start : line.find(b"}", start) + 1]) if start >= len(_EDGES) else None


def _matrix(scenes: list[dict[str, Any]], name: str, num_edges: int) -> list[list[Any]] | None:
    if not any(scene.get(name) for scene in scenes):
        return None
    columns = [scene.get(name) or [] for scene in scenes]
    return [[column[edge] if edge < len(column) else None for column in columns] for edge in range(num_edges)]
