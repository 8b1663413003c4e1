"""One round whole: its record, its edges, who held which Hz, what everybody did, where everything was, and why."""

from pathlib import Path
from typing import Any

from hpfl.reporting.folder import SCENES, TIMELINE
from hpfl.watch.by_round import RoundLines
from hpfl.watch.gantt_rows import gantt_of_round
from hpfl.watch.shown import parsed
from hpfl.watch.spectrum_phases import phases_of, upload_distribution
from hpfl.watch.watched_run import WatchedRun

_REASONS = (
    "objective",
    "lower_bound",
    "relative_gap",
    "noise_scale",
    "step_scale",
    "planning_s",
    "bandwidth_used_hz",
    "importance",
)
_LIMIT = 1e-3
"""Links that end within this share of a round's length of its last one set its length."""


def detail_of(run: WatchedRun, number: int) -> dict[str, Any] | None:
    """Everything that is known of a round; None where there is no such round."""
    with run.lock:
        if number > len(run.rounds):
            run.refresh()
        record, num_edges = run.rounds.record(number), run.facts.num_edges
    if record is None:
        return None
    scene = scene_of(run.folder, number)
    gantt = gantt_of_round(RoundLines(run.folder / TIMELINE), number)
    edges = edges_of(record, scene, gantt, num_edges)
    return {
        "record": record,
        "edges": edges,
        "spectrum": None if scene is None else {"phases": phases_of(scene, record, gantt)},
        "gantt": gantt,
        "map": None if scene is None else map_of(scene, places_of(run.folder, scene)),
        "reasons": reasons_of(record, scene),
        "ues": None if scene is None else upload_distribution(scene),
    }


def scene_of(folder: Path, number: int) -> dict[str, Any] | None:
    """The scene of a round; None where the run did not record it."""
    lines = RoundLines(folder / SCENES).of_round(number)
    found = parsed(lines[-1]) if lines else None
    return found if found is not None and isinstance(found.get("edges"), dict) else None


def places_of(folder: Path, scene: dict[str, Any]) -> dict[str, Any] | None:
    """Where everything was: in the round's own scene where things move, else in the file's first."""
    own = scene if scene.get("edge_places") else parsed(RoundLines(folder / SCENES).first_line()) or {}
    return {"edges": own["edge_places"], "ues": own.get("ue_places")} if own.get("edge_places") else None


def edges_of(
    record: dict[str, Any], scene: dict[str, Any] | None, gantt: dict[str, Any] | None, num_edges: int
) -> dict[str, Any]:
    """One row for each edge."""
    scheduled = _numbers(record.get("scheduled"))
    count = max(num_edges, max(scheduled, default=-1) + 1)
    per_edge = scene["edges"] if scene else {}
    link = _by_edge(scene)
    last_s = max((one["end_s"] for one in link.values() if one["end_s"] is not None), default=None)
    return {
        "edge": list(range(count)),
        "scheduled": [edge in scheduled for edge in range(count)],
        "staleness": per_edge.get("staleness") or _aggregated(record, "staleness", count),
        "importance": per_edge.get("importance"),
        "base_round": _base_rounds(record, per_edge, gantt, count),
        "outcome": _outcomes(record, count, _numbers((scene or {}).get("absent"))),
        "backhaul_hz": [link[k]["backhaul_hz"] if k in link else 0.0 for k in range(count)] if scene else None,
        "access_hz": [link[k]["access_hz"] if k in link else 0.0 for k in range(count)] if scene else None,
        "limits": [k in link and _is_last(link[k]["end_s"], last_s) for k in range(count)] if scene else None,
    }


def map_of(scene: dict[str, Any], places: dict[str, Any] | None) -> dict[str, Any] | None:
    """Places and gains; None where no places were recorded."""
    if places is None:
        return None
    ues, edges, at, shown = scene.get("ues"), places["edges"], places.get("ues"), None
    if at and ues:
        place = dict(zip(at["ue"], zip(at["x_m"], at["y_m"], strict=True), strict=True))
        xs, ys = zip(*(place.get(ue, (None, None)) for ue in ues["ue"]), strict=True) if ues["ue"] else ((), ())
        shown = {"ue": ues["ue"], "x": xs, "y": ys, "edge": ues["edge"], "gain_db": ues["gain_db"]}
    own = {"x": edges["x_m"], "y": edges["y_m"], "gain_db": scene["edges"].get("gain_db")}
    return {"cloud": [0.0, 0.0], "edges": own, "ues": shown, "sampled": False}


def reasons_of(record: dict[str, Any], scene: dict[str, Any] | None) -> dict[str, Any]:
    """What the planner says of its plan."""
    told = {name: record.get(name) for name in _REASONS}
    return told | (dict(scene["plan"]) if scene and isinstance(scene.get("plan"), dict) else {})


def _by_edge(scene: dict[str, Any] | None) -> dict[int, dict[str, Any]]:
    """The plan of every scheduled edge."""
    links = scene.get("links") if scene else None
    if not links:
        return {}
    names = list(links)
    return {row[0]: dict(zip(names, row, strict=True)) for row in zip(*links.values(), strict=True)}


def _is_last(end_s: float | None, last_s: float | None) -> bool:
    return end_s is not None and last_s is not None and end_s >= last_s * (1.0 - _LIMIT)


def _numbers(value: object) -> set[int]:
    return {edge for edge in value if isinstance(edge, int)} if isinstance(value, list) else set()


def _aggregated(record: dict[str, Any], name: str, count: int) -> list[Any]:
    known = dict(zip(record.get("aggregated") or (), record.get(name) or (), strict=False))
    return [known.get(edge) for edge in range(count)]


def _base_rounds(
    record: dict[str, Any], per_edge: dict[str, Any], gantt: dict[str, Any] | None, count: int
) -> list[Any]:
    """Rounds that made the model each edge worked on."""
    if per_edge.get("staleness"):
        done = record["round"] - 1
        return [None if one is None else done - one for one in per_edge["staleness"]]
    found: dict[int, int] = {}
    for edge, phase, base in (
        zip(*(gantt[name] for name in ("edge", "phase", "base_round")), strict=True) if gantt else ()
    ):
        if phase != "broadcast":
            found.setdefault(edge, base)
    return [found.get(edge) for edge in range(count)]


def _outcomes(record: dict[str, Any], count: int, absent: set[int]) -> list[str]:
    """What became of each edge's update in the round."""
    told = dict.fromkeys(_numbers(record.get("scheduled")), "in flight") | dict.fromkeys(absent, "absent")
    for name in ("aggregated", "superseded", "dropped"):
        told |= dict.fromkeys(_numbers(record.get(name)), name)
    return [told.get(edge, "waiting") for edge in range(count)]
