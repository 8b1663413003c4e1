"""`scenes.jsonl`: how every round looked when it was planned, one line a round, for whoever draws it."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.histories import size_of
from hpfl.reporting.drawn_file import DrawnFile
from hpfl.reporting.folder import SCENES
from hpfl.training.record import RoundRecord
from hpfl.training.scene import MOST_UES, EdgeShare, OnAirDown, Scene, UeShares
from hpfl.training.state import TrainState

_DIGITS = 6
"""Significant digits of what is drawn and never computed with."""
_LEAST_GAIN = 1e-30


class SceneFile(DrawnFile):
    """Appends rounds to the scenes in `out`. Where nothing moves, only the first line of the file has places."""

    def __init__(self, out: Path) -> None:
        super().__init__(out / SCENES)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Write a round's line and hand it to the operating system."""
        if record.scene is not None:
            line = scene_line(record.scene, first=size_of(self.mark()) == 0)
            self._file.append((json.dumps(line, allow_nan=False) + "\n").encode())


def scene_line(scene: Scene, *, first: bool) -> dict[str, Any]:
    """A plain object; the first line of a file has the places of a network at rest."""
    return {
        "round": scene.round,
        "planned_s": scene.planned_s,
        "spectrum": "phased" if scene.phased else "fixed",
        "plan": {name: _plain(value) for name, value in scene.plan.items()},
        "edges": {
            "staleness": scene.staleness.tolist(),
            "importance": _short(scene.importance),
            "gain_db": _decibels(scene.edge_gain),
        },
        "absent": scene.absent.tolist(),
        "links": _links(scene.links),
        "ues": None if scene.ues is None else _ues(scene.ues),
        "sent": None if scene.ues is None else _sent(scene.ues),
        "uploads": None if scene.uploads is None else _uploads(*scene.uploads),
        "broadcast": None if scene.broadcast is None else _broadcast(scene.broadcast),
        **_places(scene, first=first),
    }


def _links(links: EdgeShare) -> dict[str, Any]:
    return {name: value.tolist() if name == "edge" else _short(value) for name, value in vars(links).items()}


def _ues(ues: UeShares) -> dict[str, Any]:
    return {"ue": ues.ue.tolist(), "edge": ues.edge.tolist(), "gain_db": _decibels(ues.gain)}


def _sent(ues: UeShares) -> dict[str, Any]:
    seconds = {"start_s": _short(ues.start_s), "end_s": _short(ues.end_s)}
    return {"ue": ues.sent_ue.tolist(), "hz": _short(ues.sent_hz), **seconds}


def _uploads(bins_s: FloatArray, counts: Any) -> dict[str, Any]:
    return {"bins_s": _short(bins_s), "counts": counts.tolist()}


def _broadcast(down: OnAirDown) -> dict[str, Any]:
    return {"cloud_s": down.cloud_s, "edge": down.edge.tolist(), "hz": _short(down.hz)}


def _places(scene: Scene, *, first: bool) -> dict[str, Any]:
    """Coordinates of edges and of UEs by number, where they are to be written."""
    edge_xy_m, ues, ue_xy_m = scene.edge_xy_m, None if scene.ues is None else scene.ues.ue, scene.ue_xy_m
    if scene.places is not None and first:
        edge_xy_m = scene.places.edge_xy_m
        if scene.places.num_ues <= MOST_UES:
            ues, ue_xy_m = np.arange(scene.places.num_ues), scene.places.ue_xy_m
    at = None if ues is None or ue_xy_m is None else {"ue": ues.tolist(), **_coordinates(ue_xy_m)}
    return {"edge_places": None if edge_xy_m is None else _coordinates(edge_xy_m), "ue_places": at}


def _coordinates(xy_m: FloatArray) -> dict[str, Any]:
    return {"x_m": _rounded(xy_m[:, 0], 1), "y_m": _rounded(xy_m[:, 1], 1)}


def _decibels(gain: FloatArray) -> list[float | None]:
    return _rounded(10.0 * np.log10(np.maximum(gain, _LEAST_GAIN)), 2)


def _short(values: FloatArray) -> list[float | None]:
    """Numbers with a few significant digits; None for what is not finite."""
    finite = np.isfinite(values)
    safe = np.where(finite, values, 0.0)
    magnitude = np.floor(np.log10(np.where(safe == 0, 1.0, np.abs(safe)))).astype(np.int64)
    spare = _DIGITS - 1 - magnitude
    up, down = 10.0 ** np.maximum(spare, 0), 10.0 ** np.maximum(-spare, 0)
    return _or_none(np.round(safe * up / down) * down / up, finite)


def _rounded(values: FloatArray, decimals: int) -> list[float | None]:
    return _or_none(np.round(values, decimals), np.isfinite(values))


def _or_none(values: FloatArray, finite: Any) -> list[float | None]:
    plain = values.tolist()
    return plain if finite.all() else [one if good else None for one, good in zip(plain, finite.tolist(), strict=True)]


def _plain(value: Any) -> Any:
    return value if not isinstance(value, float) or np.isfinite(value) else None
