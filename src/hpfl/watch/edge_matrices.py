"""Staleness, importance and schedule of every edge over rounds, for heat maps."""

from typing import Any

from hpfl.watch.scene_parts import MOST_ROUNDS, part_of_scenes, shown_rounds
from hpfl.watch.watched_run import WatchedRun

MOST_CELLS = 400_000
"""Edges times rounds; with more edges there are fewer rounds."""


def edges_between(run: WatchedRun, first: int | None, last: int | None) -> dict[str, Any]:
    """Matrices with a row for each edge and a column for each round shown; what is not recorded is null."""
    with run.lock:
        run.refresh()
        num_edges = run.facts.num_edges
        most = max(min(MOST_ROUNDS, MOST_CELLS // max(num_edges, 1)), 1)
        rounds, step = shown_rounds(run, first, last, most)
        records = [run.rounds.record(number) or {} for number in rounds]
    scenes = part_of_scenes(run.folder, rounds, step, "edges")
    edges = range(max(num_edges, *(max(r.get("scheduled") or [-1]) + 1 for r in records), 0))
    called = [set(record.get("scheduled") or ()) for record in records]
    return {
        "rounds": rounds,
        "scheduled": [[int(edge in those) for those in called] for edge in edges],
        "staleness": _matrix(scenes, "staleness", len(edges)),
        "importance": _matrix(scenes, "importance", len(edges)),
        "stride": step,
    }


def _matrix(scenes: list[dict[str, Any]], name: str, num_edges: int) -> list[list[Any]] | None:
    if not any(scene.get(name) for scene in scenes):
        return None
    columns = [scene.get(name) or [] for scene in scenes]
    return [[column[edge] if edge < len(column) else None for column in columns] for edge in range(num_edges)]
