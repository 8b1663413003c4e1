"""Who held which part of the band, and when, from a round's scene."""

from typing import Any

_BINS = 20
_CLOSE = 1e-3
"""Links that end within this share of a phase's length of its end set its length."""


def phases_of(scene: dict[str, Any], record: dict[str, Any], gantt: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The phases of a round in order; seconds are those of the run's clock, as in the timeline."""
    began_s = scene.get("planned_s") or 0.0
    access, backhaul = _access(scene, began_s), _backhaul(scene, began_s)
    if scene.get("spectrum") == "phased":
        found = [_phase("access", access), _phase("backhaul", backhaul)]
    else:
        found = [_phase("whole", [*access, *backhaul])]
    return [one for one in (*found, _broadcast(scene, record, gantt)) if one is not None]


def upload_distribution(scene: dict[str, Any]) -> dict[str, Any] | None:
    """How long the UEs that were called transmit, as a histogram."""
    if scene.get("uploads"):
        told = scene["uploads"]
        return {"metric": "upload_s", "edges": told["bins_s"], "counts": told["counts"]}
    sent = scene.get("sent")
    values = [end - start for start, end in zip(sent["start_s"], sent["end_s"], strict=True)] if sent else []
    if not values:
        return None
    low, high = min(values), max(values)
    width = (high - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / width), _BINS - 1)] += 1
    return {"metric": "upload_s", "edges": [low + width * one for one in range(_BINS + 1)], "counts": counts}


def _access(scene: dict[str, Any], began_s: float) -> list[dict[str, Any]]:
    """One link for each UE that was called, or one for all UEs of an edge together."""
    sent = scene.get("sent")
    if sent:
        edge_of = dict(zip(scene["ues"]["ue"], scene["ues"]["edge"], strict=True))
        rows = zip(sent["ue"], sent["hz"], sent["start_s"], sent["end_s"], strict=True)
        return [_link("access", edge_of.get(ue), ue, hz, began_s + start, began_s + end) for ue, hz, start, end in rows]
    links = scene.get("links") or {}
    names = ("edge", "access_hz", "compute_s", "access_end_s")
    rows = zip(*(links.get(name, ()) for name in names), strict=True)
    return [
        _link("access", edge, None, hz, began_s + (start or 0.0), began_s + end)
        for edge, hz, start, end in rows
        if hz and end is not None
    ]


def _backhaul(scene: dict[str, Any], began_s: float) -> list[dict[str, Any]]:
    links = scene.get("links") or {}
    rows = zip(*(links.get(name, ()) for name in ("edge", "backhaul_hz", "backhaul_start_s", "end_s")), strict=True)
    return [
        _link("backhaul", edge, None, hz, began_s + start, began_s + end)
        for edge, hz, start, end in rows
        if hz and start is not None and end is not None
    ]


def _broadcast(scene: dict[str, Any], record: dict[str, Any], gantt: dict[str, Any] | None) -> dict[str, Any] | None:
    """The broadcast, where it takes time; the cells that send the model on."""
    lasted_s, ended_s = record.get("broadcast_s") or 0.0, record.get("time_s") or 0.0
    cells = scene.get("broadcast")
    if not lasted_s:
        return None
    start_s = ended_s - lasted_s
    if cells:
        from_s = start_s + (cells.get("cloud_s") or 0.0)
        links = [
            _link("cell", edge, None, hz, from_s, ended_s) for edge, hz in zip(cells["edge"], cells["hz"], strict=True)
        ]
        links.insert(0, _link("cloud", None, None, cells.get("cloud_hz"), start_s, from_s))
    else:
        heard = [] if gantt is None else _heard(gantt)
        links = [_link("cell", edge, None, None, start_s, ended_s) for edge in heard]
    return _phase("broadcast", links, (start_s, ended_s))


def _heard(gantt: dict[str, Any]) -> list[int]:
    rows = zip(*(gantt[name] for name in ("edge", "phase", "start_s", "end_s")), strict=True)
    return [edge for edge, phase, start_s, end_s in rows if phase == "broadcast" and end_s > start_s]


def _link(hop: str, edge: int | None, ue: int | None, hz: float | None, start_s: float, end_s: float) -> dict[str, Any]:
    return {"hop": hop, "edge": edge, "ue": ue, "hz": hz, "start_s": start_s, "end_s": end_s}


def _phase(name: str, links: list[dict[str, Any]], span_s: tuple[float, float] | None = None) -> dict[str, Any] | None:
    """A phase from its first link's beginning to its last one's end; the links that end with it limit it."""
    if not links:
        return None
    start_s, end_s = span_s or (min(one["start_s"] for one in links), max(one["end_s"] for one in links))
    slack_s = _CLOSE * (end_s - start_s)
    columns = {key: [one[key] for one in links] for key in links[0]}
    limits = [one["end_s"] >= end_s - slack_s for one in links]
    return {"name": name, "start_s": start_s, "end_s": end_s, "links": {**columns, "limits": limits}}
