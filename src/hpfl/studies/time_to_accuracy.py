"""Study `time-to-accuracy`: simulated seconds, joules and bits to a personalised accuracy, planner by planner."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

from hpfl.config import load
from hpfl.reporting import summary
from hpfl.reporting.intervals import geometric
from hpfl.studies.study import Rows
from hpfl.sweeps.parts import StudyPart

RANDOM_SIZES = (1, 2, 4, 8, 15)
OWN_BROADCAST = ("fastest", "round-robin", "random-cycle")
"""Planners that say themselves who hears."""
_RANDOM = {f"random-{A}": ("planning.planner=random", f"planning.max_edges={A}") for A in RANDOM_SIZES}
PLANNERS: Mapping[str, tuple[str, ...]] = {
    "fastest": ("planning.planner=fastest",),
    "paper": ("planning.planner=paper",),
    "joint": ("planning.planner=joint",),
    "alternating": ("planning.planner=alternating",),
    "full": ("planning.planner=full",),
    "round-robin": ("planning.planner=round-robin",),
    "random-cycle": ("planning.planner=random-cycle",),
    **_RANDOM,
    "shpfl": ("planning.planner=shpfl",),
}
ABLATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fastest, no sketches": ("auto", ("planning.planner=fastest", "planning.sketch_size=0")),
    "fastest, 8 floats": ("auto", ("planning.planner=fastest", "planning.sketch_size=8")),
    "fastest, 512 floats": ("auto", ("planning.planner=fastest", "planning.sketch_size=512")),
    "fastest, no price of age": ("scheduled", ("planning.planner=fastest", "planning.staleness_price=none")),
}
"""Who hears, and what is changed. Age has a price only where not all hear, a high one for long steps."""
_LONGER = ("planning.planner=fastest", "learning.outer_lr=0.5")
LONGER: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fastest, longer step": ("scheduled", _LONGER),
    "fastest, longer step, no price of age": ("scheduled", (*_LONGER, "planning.staleness_price=none")),
}
FIXED = ("full", *_RANDOM)
"""Rules that always take as many edges."""
SYSTEMS: Mapping[str, str] = {"FL": "fl", "PFL": "pfl", "HFL": "hfl"}
"""Systems run beside the planners; HPFL is planner `paper`, and SHPFL is `shpfl`, each with broadcast `scheduled`."""
CONVERGED = "converged"
"""The aim of runs that do not end at a target but when `full` has converged."""


@dataclass(frozen=True, kw_only=True)
class Long:
    """When `full` is taken to have converged (simulated seconds), and at which skews that is asked."""

    seconds: float
    skews: tuple[float, ...]
    rounds: int = 10_000
    evaluate_every: int = 5


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A data set's part of the study: its preset, the accuracies timed (the last one ends a run) and the grid.

    A run that has not arrived after `rounds` rounds or `stop_at_s` ends: its time is at least that.
    """

    preset: str
    targets: tuple[float, ...]
    planners: tuple[str, ...]
    skews: tuple[float, ...]
    clocks: tuple[str, ...]
    rounds: int
    stop_at_s: float
    evaluate_every: int = 1
    ablations: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=lambda: ABLATIONS)
    systems: tuple[str, ...] = ()
    long: Long | None = None


_EVERYTHING = tuple(PLANNERS)
FULL: Mapping[str, Setting] = {
    "mnist": Setting(
        preset="paper-mnist",
        targets=(0.8, 0.9, 0.93),
        planners=_EVERYTHING,
        skews=(0.0, 0.5, 1.0),
        clocks=("round", "event"),
        rounds=250,
        stop_at_s=700.0,
        ablations={**ABLATIONS, **LONGER},
        systems=tuple(SYSTEMS),
        long=Long(seconds=3000.0, skews=(0.0, 1.0)),
    ),
    "cifar10": Setting(
        preset="paper-cifar10",
        targets=(0.5, 0.55, 0.6),
        planners=_EVERYTHING,
        skews=(0.0, 1.0),
        clocks=("round",),
        rounds=600,
        stop_at_s=1000.0,
        evaluate_every=2,
        systems=tuple(SYSTEMS),
        long=Long(seconds=2400.0, skews=(0.0,), evaluate_every=10),
    ),
}
QUICK: Mapping[str, Setting] = {
    "mnist-mini": Setting(
        preset="quickstart-paper",
        targets=(0.7, 0.9),
        planners=("fastest", "full", "random-1", "random-2"),
        skews=(0.0, 1.0),
        clocks=("round",),
        rounds=60,
        stop_at_s=170.0,
    )
}


class TimedPlace(NamedTuple):
    """One cell of the grid and one seed."""

    clock: str
    skew: float
    planner: str
    broadcast: str
    seed: int


def parts(settings: Mapping[str, Setting], seeds: Iterable[int]) -> list[StudyPart]:
    """Every run of the study, seed by seed, so that an interrupted one is even; what the bars ask for comes first."""
    return [part for seed in seeds for data, setting in settings.items() for part in _of(data, setting, seed)]


def _of(data: str, setting: Setting, seed: int) -> Iterator[StudyPart]:
    every = sorted(grid(setting, seed), key=lambda place: _rank(place, setting))
    barred = [place for place in every if not any(_rank(place, setting))]
    for place in barred:
        yield part_of(data, setting, place, PLANNERS[place.planner])
    yield from _long(data, setting, seed)
    for skew, (name, (broadcast, changes)) in product(_ends(setting.skews), setting.ablations.items()):
        place = TimedPlace(setting.clocks[0], skew, name, broadcast, seed)
        yield _named(part_of(data, setting, place, changes), "ablations")
    for name in setting.systems:
        place = TimedPlace(setting.clocks[0], setting.skews[0], name, "scheduled", seed)
        yield _named(part_of(data, setting, place, (), system=SYSTEMS[name]), "systems")
    for place in every[len(barred) :]:
        yield part_of(data, setting, place, PLANNERS[place.planner])


def grid(setting: Setting, seed: int) -> Iterator[TimedPlace]:
    """Every clock, skew, planner and broadcast of a setting; planners with a wish of their own get it."""
    for clock, skew, planner in product(setting.clocks, setting.skews, setting.planners):
        yield TimedPlace(clock, skew, planner, "auto" if planner in OWN_BROADCAST else "all", seed)
        if planner not in ("full", "round-robin", "random-cycle"):  # everybody hears anyway, or has to
            yield TimedPlace(clock, skew, planner, "scheduled", seed)


def _rank(place: TimedPlace, setting: Setting) -> tuple[bool, bool, bool]:
    """First what the bars need: the first clock, the outer skews, the broadcast that is faster as a rule."""
    return place.clock != setting.clocks[0], place.skew not in _ends(setting.skews), place.broadcast == "scheduled"


def _ends(skews: Sequence[float]) -> tuple[float, ...]:
    return tuple(dict.fromkeys((skews[0], skews[-1])))


def _long(data: str, setting: Setting, seed: int) -> Iterator[StudyPart]:
    """`full` until it has converged, and `fastest` for as many seconds."""
    if setting.long is None:
        return
    for skew, (planner, broadcast) in product(setting.long.skews, (("full", "all"), ("fastest", "auto"))):
        place = TimedPlace(setting.clocks[0], skew, planner, broadcast, seed)
        changes = (*PLANNERS[planner], f"training.rounds={setting.long.rounds}")
        part = part_of(data, setting, place, (*changes, f"evaluation.every={setting.long.evaluate_every}"))
        yield replace(
            _named(part, CONVERGED),
            labels={**part.labels, "aim": CONVERGED},
            stop_at_accuracy=None,
            stop_at_s=setting.long.seconds,
        )


def _named(part: StudyPart, kind: str) -> StudyPart:
    """A part outside the grid, whose name has its kind in place of the clock."""
    data, _, rest = part.name.split("/", 2)
    return replace(part, name=f"{data}/{kind}/{rest}")


def part_of(
    data: str, setting: Setting, place: TimedPlace, changes: Sequence[str], *, system: str | None = None
) -> StudyPart:
    """The run of one place with `changes` on top."""
    overrides = [
        f"training.clock={place.clock}",
        f"data.edge_skew={place.skew}",
        f"training.broadcast={place.broadcast}",
        f"training.seed={place.seed}",
        f"training.rounds={setting.rounds}",
        f"evaluation.every={setting.evaluate_every}",
        *changes,
    ]
    slug = place.planner.replace(", ", "-").replace(" ", "-")
    return StudyPart(
        name=f"{data}/{place.clock}/skew-{place.skew:g}/{slug}/{place.broadcast}/seed-{place.seed}",
        labels={
            "data": data,
            "clock": place.clock,
            "edge_skew": place.skew,
            "planner": place.planner,
            "broadcast": place.broadcast,
            "seed": place.seed,
        },
        config=load(setting.preset, system=system, overrides=overrides),
        stop_at_accuracy=setting.targets[-1],
        stop_at_s=setting.stop_at_s,
    )


def run_rows(found: Iterable[Mapping[str, Any]], settings: Mapping[str, Setting]) -> Rows:
    """One row per run and target: labels, and seconds, joules and bits to it (null where it was not reached)."""
    aimed = [part for part in found if part["labels"].get("aim") != CONVERGED]
    return [run_row(part, target) for part in aimed for target in settings[part["labels"]["data"]].targets]


def run_row(part: Mapping[str, Any], target: float) -> dict[str, Any]:
    """A run's labels, and what it took to the target."""
    table = _table(part)
    reached = summary.time_to_target(table, target)
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
        "diverged": diverged(part),
    }


def diverged(part: Mapping[str, Any]) -> bool:
    """Whether the model became infinite, or what it had learned was lost."""
    return part["diverged"] is not None or summary.diverged(_table(part))


def _table(part: Mapping[str, Any]) -> Rows:
    columns = part["rounds"]
    table = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{**row, "round": number} for number, row in enumerate(table, start=1)]


GROUP = ("data", "clock", "edge_skew", "planner", "broadcast", "target")


def summary_rows(runs: Sequence[Mapping[str, Any]]) -> Rows:
    """One row per cell of the grid: geometric means over the seeds that reached the target, with 95% intervals."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in runs:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return [dict(zip(GROUP, key, strict=True)) | over_seeds(members) for key, members in groups.items()]


def over_seeds(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Geometric means over the runs of one cell that reached the target."""
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
