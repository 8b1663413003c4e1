"""Folders of results of any size in the formats that runs write, made of a seed: what a page is measured with."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_CONFIG = """[network]
edges = {edges}
ues_per_edge = {ues}
bandwidth_hz = 5000000.0
spectrum = "phased"
downlink = "free"
[data]
dataset = "mnist-mini"
[training]
rounds = {rounds}
seed = {seed}
[planning]
planner = "fastest"
[evaluation]
every = 1
target_accuracy = 0.9
"""
_BANDWIDTH_HZ = 5e6
_ROUND_S = 0.2
_MOST_UES = 2_000
"""With more a scene has no UE by itself."""


@dataclass(frozen=True)
class Shape:
    """How large a run is: rounds that it will play, edges, UEs under each of them; and its seed."""

    rounds: int
    edges: int = 20
    ues_per_edge: int = 5
    seed: int = 0


class SyntheticRun:
    """Writes rounds into a folder as a run does: records, timeline and scenes."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.shape, self.played = folder, shape, 0
        self._draw = np.random.default_rng(shape.seed)
        said = _CONFIG.format(edges=shape.edges, ues=shape.ues_per_edge, rounds=shape.rounds, seed=shape.seed)
        (folder / "config.toml").write_text(said, encoding="utf-8")
        (folder / "rounds.jsonl").touch()

    def play(self, rounds: int, *, whole: bool = True) -> None:
        """Append rounds; without the `whole` of them there are records alone."""
        numbers = range(self.played + 1, self.played + rounds + 1)
        records = [self._record(number) for number in numbers]
        if whole:
            _append(self.folder / "timeline.jsonl", [row for record in records for row in self._timeline(record)])
            _append(self.folder / "scenes.jsonl", [self._scene(record) for record in records])
        _append(self.folder / "rounds.jsonl", records)
        self.played += rounds

    def end(self) -> None:
        """Write what a run leaves at its end."""
        (self.folder / "summary.json").write_text(
            json.dumps({"completed": True, "rounds": self.played}), encoding="utf-8"
        )
        count = self.shape.edges * self.shape.ues_per_edge
        shares = np.round(self._draw.beta(12, 2, count), 4)
        lines = [f"{ue},{ue // self.shape.ues_per_edge},30,1 2,{share},{share / 2}" for ue, share in enumerate(shares)]
        header = "ue,edge,samples,labels,personalised_accuracy,global_accuracy"
        (self.folder / "ues.csv").write_text("\n".join([header, *lines, ""]), encoding="utf-8")

    def _record(self, number: int) -> dict[str, Any]:
        called = np.flatnonzero(self._draw.random(self.shape.edges) < 0.6).tolist() or [0]
        accuracy = round(0.97 - 0.6 * float(np.exp(-number / 40)) - 0.01 * float(self._draw.random()), 6)
        return {
            "round": number,
            "time_s": round(number * _ROUND_S, 6),
            "latency_s": _ROUND_S,
            "num_scheduled": len(called),
            "scheduled": called,
            "num_aggregated": len(called),
            "max_staleness": 0,
            "mean_staleness": 0.0,
            "importance": round(float(self._draw.gamma(2.0)), 6),
            "bandwidth_used_hz": _BANDWIDTH_HZ,
            "uplink_bits": 1e6 * len(called),
            "downlink_bits": 0.0,
            "energy_j": round(float(self._draw.random()), 6),
            "planning_s": 0.01,
            "objective": round(-100 + 10 * float(self._draw.random()), 6),
            "lower_bound": -110.0,
            "relative_gap": round(0.1 * float(self._draw.random()), 6),
            "aggregated": called,
            "staleness": [0] * len(called),
            "superseded": [],
            "dropped": [],
            "step_scale": 1.0,
            "noise_scale": round(float(self._draw.gamma(3.0)), 6),
            "meta_loss": round(2.0 * float(np.exp(-number / 40)) + 0.1, 6),
            "personalised_accuracy": accuracy,
            "personalised_accuracy_p10": round(accuracy - 0.1, 6),
        }

    def _timeline(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        number, end_s, called = record["round"], record["time_s"], set(record["scheduled"])
        begin_s, rows = end_s - _ROUND_S, []
        marks = (("compute", 0.0, 0.1), ("edge_upload", 0.1, 0.7), ("backhaul", 0.7, 1.0), ("aggregated", 1.0, 1.0))
        for edge in range(self.shape.edges):
            for phase, start, end in marks if edge in called else (("waiting", 0.0, 1.0),):
                span = {"start_s": begin_s + start * _ROUND_S, "end_s": begin_s + end * _ROUND_S}
                rows.append(
                    {"round": number, "edge": edge, "phase": phase, **span, "base_round": number - 1, "bits": 0.0}
                )
        return rows

    def _scene(self, record: dict[str, Any]) -> dict[str, Any]:
        edges, called = self.shape.edges, record["scheduled"]
        ues = np.arange(edges * self.shape.ues_per_edge)
        of = ues // self.shape.ues_per_edge
        sends = ues[np.isin(of, called)]
        each_hz = _BANDWIDTH_HZ / len(called)
        ends_s = np.round(_ROUND_S * (0.5 + 0.2 * self._draw.random(sends.size)), 6)
        sent_hz = [each_hz / self.shape.ues_per_edge] * sends.size
        links = {"edge": called} | {name: [each_hz] * len(called) for name in ("access_hz", "backhaul_hz")}
        times = {"compute_s": 0.1, "access_end_s": 0.7, "backhaul_start_s": 0.7, "end_s": 1.0}
        links |= {name: [share * _ROUND_S] * len(called) for name, share in times.items()}
        line = {
            "round": record["round"],
            "planned_s": record["time_s"] - _ROUND_S,
            "spectrum": "phased",
            "plan": {"coding": 3, "debt": round(float(self._draw.gamma(2.0)), 6)},
            "edges": {
                "staleness": self._draw.integers(0, 9, edges).tolist(),
                "importance": np.round(self._draw.gamma(2.0, size=edges), 4).tolist(),
                "gain_db": np.round(-80 - 10 * self._draw.random(edges), 2).tolist(),
            },
            "absent": [],
            "links": links,
            "ues": {
                "ue": ues.tolist(),
                "edge": of.tolist(),
                "gain_db": np.round(-60 - 9 * self._draw.random(ues.size), 2).tolist(),
            },
            "sent": {"ue": sends.tolist(), "hz": sent_hz, "start_s": [0.02] * sends.size, "end_s": ends_s.tolist()},
            "uploads": None,
            "broadcast": None,
            "edge_places": _ring(edges, 150.0),
            "ue_places": {"ue": ues.tolist(), **_ring(ues.size, 190.0, shift=record["round"] / 50)},
        }
        return line if ues.size <= _MOST_UES else line | _summed(sends.size)


def _summed(count: int) -> dict[str, Any]:
    """What a scene has in place of UEs where they are too many."""
    return {"ues": None, "sent": None, "ue_places": None, "uploads": {"bins_s": [0.0, 0.1, 0.2], "counts": [count, 0]}}


def _ring(count: int, radius_m: float, *, shift: float = 0.0) -> dict[str, list[float]]:
    angle = 2 * np.pi * (np.arange(count) / count) + shift
    across = radius_m * (0.6 + 0.4 * np.cos(7 * np.arange(count)))
    return {"x_m": np.round(across * np.cos(angle), 1).tolist(), "y_m": np.round(across * np.sin(angle), 1).tolist()}


def _append(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
