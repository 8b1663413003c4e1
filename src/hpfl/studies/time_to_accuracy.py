"""Study `time-to-accuracy`: simulated seconds, joules and bits to a personalised accuracy, planner by planner."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hpfl.config import load
from hpfl.reporting.summary import rows, time_to_target
from hpfl.studies.intervals import geometric
from hpfl.studies.parts import Part

Rows = list[dict[str, Any]]

RANDOM_SIZES = (1, 2, 4, 8, 15)
_RANDOM = {f"random-{A}": ("planning.planner=random", f"planning.max_edges={A}") for A in RANDOM_SIZES}
PLANNERS: Mapping[str, tuple[str, ...]] = {
    "fastest": ("planning.planner=fastest",),
    "paper": ("planning.planner=paper",),
    "joint": ("planning.planner=joint",),
    "alternating": ("planning.planner=alternating",),
    "full": ("planning.planner=full",),
    **_RANDOM,
    "shpfl": ("planning.planner=shpfl",),
}
ABLATIONS: Mapping[str, tuple[str, ...]] = {
    "fastest, no sketches": ("planning.planner=fastest", "planning.sketch_size=0"),
    "fastest, 8 floats": ("planning.planner=fastest", "planning.sketch_size=8"),
    "fastest, 512 floats": ("planning.planner=fastest", "planning.sketch_size=512"),
}
FIXED = ("full", *_RANDOM)
"""Rules that always take as many edges."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A data set's part of the study: its preset, the accuracies timed (the last one ends a run) and the grid."""

    preset: str
    targets: tuple[float, ...]
    planners: tuple[str, ...]
    skews: tuple[float, ...]
    clocks: tuple[str, ...]
    rounds: int
    stop_at_s: float
    evaluate_every: int = 1


_EVERYTHING = tuple(PLANNERS)
FULL: Mapping[str, Setting] = {
    "mnist": Setting(
        preset="paper-mnist",
        targets=(0.8, 0.9, 0.93),
        planners=_EVERYTHING,
        skews=(0.0, 0.5, 1.0),
        clocks=("round", "event"),
        rounds=1500,
        stop_at_s=700.0,
    ),
    "cifar10": Setting(
        preset="paper-cifar10",
        targets=(0.5, 0.55, 0.6),
        planners=("fastest", "paper", *FIXED, "shpfl"),
        skews=(0.0, 1.0),
        clocks=("round",),
        rounds=1500,
        stop_at_s=2500.0,
        evaluate_every=2,
    ),
}
QUICK: Mapping[str, Setting] = {
    "mnist-mini": Setting(
        preset="quickstart",
        targets=(0.7, 0.9),
        planners=("fastest", "full", "random-1", "random-2"),
        skews=(0.0, 1.0),
        clocks=("round",),
        rounds=60,
        stop_at_s=170.0,
    )
}


def parts(settings: Mapping[str, Setting], seeds: Iterable[int]) -> list[Part]:
    """Every run of the study, seed by seed, so that an interrupted one is even."""
    return [part for seed in seeds for data, setting in settings.items() for part in _of(data, setting, seed)]


def _of(data: str, setting: Setting, seed: int) -> Iterator[Part]:
    for clock, skew, planner in product(setting.clocks, setting.skews, setting.planners):
        for broadcast in ("scheduled", "auto" if planner == "fastest" else "all"):
            yield _part(data, setting, (clock, skew, planner, broadcast, seed), PLANNERS[planner])
    for skew, (name, changes) in product(setting.skews[:: max(len(setting.skews) - 1, 1)], ABLATIONS.items()):
        yield _part(data, setting, (setting.clocks[0], skew, name, "auto", seed), changes)


def _part(data: str, setting: Setting, place: tuple[str, float, str, str, int], changes: Sequence[str]) -> Part:
    clock, skew, planner, broadcast, seed = place
    overrides = [
        f"training.clock={clock}",
        f"data.edge_skew={skew}",
        f"training.broadcast={broadcast}",
        f"training.seed={seed}",
        f"training.rounds={setting.rounds}",
        f"evaluation.every={setting.evaluate_every}",
        *changes,
    ]
    slug = planner.replace(", ", "-").replace(" ", "-")
    return Part(
        name=f"{data}/{clock}/skew-{skew:g}/{slug}/{broadcast}/seed-{seed}",
        labels={
            "data": data, "clock": clock, "edge_skew": skew, "planner": planner, "broadcast": broadcast, "seed": seed
        },
        config=load(setting.preset, overrides=overrides),
        stop_at_accuracy=setting.targets[-1],
        stop_at_s=setting.stop_at_s,
    )  # fmt: skip


def run_rows(found: Iterable[Mapping[str, Any]], settings: Mapping[str, Setting]) -> Rows:
    """One row per run and target: labels, and seconds, joules and bits to it (null where it was not reached)."""
    return [_run_row(part, target) for part in found for target in settings[part["labels"]["data"]].targets]


def _run_row(part: Mapping[str, Any], target: float) -> dict[str, Any]:
    columns = part["rounds"]
    table = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    table = [{**row, "round": number} for number, row in enumerate(table, start=1)]
    reached = time_to_target(rows(table), target)
    way = table[: reached.round] if reached else table
    total = {name: sum(row[name] for row in way) for name in ("energy_j", "uplink_bits", "planning_s", "num_scheduled")}
    return {
        **part["labels"],
        "target": target,
        "reached": reached is not None,
        "time_s": reached.time_s if reached else None,
        "energy_j": total["energy_j"] if reached else None,
        "uplink_bits": total["uplink_bits"] if reached else None,
        "rounds": len(way),
        "run_s": table[-1]["time_s"] if table else 0.0,
        "mean_edges": total["num_scheduled"] / max(len(way), 1),
        "planning_ms": 1e3 * total["planning_s"] / max(len(way), 1),
        "diverged": part["diverged"] is not None,
    }


GROUP = ("data", "clock", "edge_skew", "planner", "broadcast", "target")


def summary_rows(runs: Sequence[Mapping[str, Any]]) -> Rows:
    """One row per cell of the grid: geometric means over the seeds that reached the target, with 95% intervals."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in runs:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return [dict(zip(GROUP, key, strict=True)) | _summed(members) for key, members in groups.items()]


def _summed(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [row for row in members if row["reached"]]
    time = geometric([row["time_s"] for row in there])
    energy, bits = (geometric([row[name] for row in there]) for name in ("energy_j", "uplink_bits"))
    return {
        "seeds": len(members),
        "reached": len(there),
        "time_s": time.mean if time else None,
        "time_low_s": time.low if time else None,
        "time_high_s": time.high if time else None,
        "energy_j": energy.mean if energy else None,
        "uplink_bits": bits.mean if bits else None,
        "mean_edges": sum(row["mean_edges"] for row in members) / len(members),
        "planning_ms": sum(row["planning_ms"] for row in members) / len(members),
        "diverged": sum(row["diverged"] for row in members),
    }
