"""Study `own-step`: seconds to an accuracy with every planner at the outer step that suits it, chosen on other seeds.

The presets' outer step is the paper's, and was tuned for nobody. With a short step every planner needs about as many
rounds, so that the ratio of two times is that of their rounds' seconds. Here each planner takes, at each skew, the step
and the broadcast that were best on the development seeds; it is then judged on the study's own seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.config import load
from hpfl.reporting.style import BLUE, INK, MUTED
from hpfl.studies import time_to_accuracy as times
from hpfl.studies.bars import BarCell, paired, slowness
from hpfl.studies.cases import Scale
from hpfl.studies.curves import name, panels, plain_log
from hpfl.studies.study import Found, Rows, Study, Tables
from hpfl.studies.tabulate import distinct, where
from hpfl.sweeps.parts import StudyPart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = (0.07, 0.2, 0.5, 0.7, 1.0)
DEVELOPMENT = (101, 102, 103)
"""Seeds on which steps are chosen; none of them is judged."""
PLANNERS = (
    "fastest", "round-robin", "random-cycle", "random-1", "random-2", "random-4", "paper", "joint", "full", "shpfl",
)  # fmt: skip
_FULL = replace(times.FULL["mnist"], planners=PLANNERS, skews=(0.0, 1.0), clocks=("round",))
_QUICK = replace(times.QUICK["mnist-mini"], planners=("fastest", "round-robin", "full"), targets=(0.9,))
SETTINGS: Mapping[str, times.Setting] = {"mnist": _FULL, "mnist-mini": _QUICK}
_QUICK_STEPS = (0.07, 0.5)
_PLACE = ("data", "edge_skew", "planner")


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """Every planner with every step and broadcast, on the development seeds and on those that judge."""
    data = "mnist-mini" if scale.thin else "mnist"
    development = DEVELOPMENT[:1] if scale.thin else DEVELOPMENT
    steps = _QUICK_STEPS if scale.thin else STEPS
    return [
        _part(data, place, step)
        for seed in (*development, *seeds)
        for place, step in product(times.grid(SETTINGS[data], seed), steps)
    ]


def _part(data: str, place: times.TimedPlace, step: float) -> StudyPart:
    part = times.part_of(data, SETTINGS[data], place, (*times.PLANNERS[place.planner], f"learning.outer_lr={step}"))
    role = "development" if place.seed in DEVELOPMENT else "judged"
    labels = {**part.labels, "outer_lr": step, "role": role}
    return replace(part, name=f"own-step/{part.name.replace('/round/', f'/step-{step:g}/')}", labels=labels)


def tables(found: Sequence[Found]) -> Tables:
    """`speedups` of `fastest` at the preset's step and at everybody's own, `choices` made, `cells`, and `runs`."""
    runs = [row for row in times.run_rows(found, SETTINGS) if row["target"] == SETTINGS[row["data"]].targets[-1]]
    choices = [_choice(runs, place) for place in _places(runs)]
    cells = [row for choice in choices for row in _cells(runs, choice)]
    return {"speedups": list(_speedups(runs, choices)), "cells": cells, "choices": choices, "runs": runs}


def _places(runs: Rows) -> list[dict[str, Any]]:
    keys = dict.fromkeys(tuple(row[name] for name in _PLACE) for row in runs)
    return [dict(zip(_PLACE, key, strict=True)) for key in keys]


def _choice(runs: Rows, place: Mapping[str, Any]) -> dict[str, Any]:
    """Step and broadcast that are best on the development seeds, and the broadcast that is with the preset's step."""
    here = where(runs, **place, role="development")
    best = _best(here)
    usual = _preset_step(place["data"])
    return {
        **place,
        "outer_lr": best["outer_lr"],
        "broadcast": best["broadcast"],
        "preset_outer_lr": usual,
        "preset_broadcast": _best(where(here, outer_lr=usual))["broadcast"],
        "rounds": best["rounds"],
        "time_s": best["time_s"],
    }


def _best(here: Rows) -> dict[str, Any]:
    """The quickest of all ways to run, by the seeds that arrive, then by their time."""
    ways = {(row["outer_lr"], row["broadcast"]): _cell(here, row["outer_lr"], row["broadcast"]) for row in here}
    step, broadcast = min(ways, key=lambda way: slowness(ways[way]))
    cell = ways[step, broadcast]
    rounds = sum(row["rounds"] for row in cell.values()) / len(cell)
    return {"outer_lr": step, "broadcast": broadcast, "rounds": rounds, "time_s": slowness(cell)[1]}


def _cell(rows: Rows, step: float, broadcast: str) -> BarCell:
    return {row["seed"]: row for row in where(rows, outer_lr=step, broadcast=broadcast)}


def _judged(runs: Rows, choice: Mapping[str, Any]) -> dict[str, BarCell]:
    """A planner's runs on the judging seeds: at the preset's step, and at its own."""
    here = where(runs, **{key: choice[key] for key in _PLACE}, role="judged")
    return {
        "preset": _cell(here, choice["preset_outer_lr"], choice["preset_broadcast"]),
        "own": _cell(here, choice["outer_lr"], choice["broadcast"]),
    }


def _cells(runs: Rows, choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for step, cell in _judged(runs, choice).items():
        if cell:
            chosen = choice["outer_lr"] if step == "own" else choice["preset_outer_lr"]
            summed = times.over_seeds(list(cell.values()))
            yield {**{key: choice[key] for key in _PLACE}, "step": step, "outer_lr": chosen, **summed}


def _speedups(runs: Rows, choices: Rows) -> Iterator[dict[str, Any]]:
    for rival in choices:
        ours = next((c for c in where(choices, data=rival["data"], planner="fastest") if _same(c, rival)), None)
        if ours is None or rival["planner"] == "fastest":
            continue
        mine, theirs = _judged(runs, ours), _judged(runs, rival)
        place = {"data": rival["data"], "edge_skew": rival["edge_skew"], "target": SETTINGS[rival["data"]].targets[-1]}
        for step in ("preset", "own"):
            if mine[step] and theirs[step]:
                steps = {"step": step, "fastest_lr": _step(ours, step), "rival_lr": _step(rival, step)}
                yield {**place, "rival": rival["planner"], **steps, **paired(theirs[step], mine[step])}


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["edge_skew"] == other["edge_skew"])


def _step(choice: Mapping[str, Any], step: str) -> float:
    return float(choice["outer_lr" if step == "own" else "preset_outer_lr"])


def _preset_step(data: str) -> float:
    return load(SETTINGS[data].preset).learning.outer_lr


def draw(made: Tables, folder: Path) -> list[Path]:
    """Seconds of every planner, at the preset's step and at its own, one panel per skew."""
    cells = [row for row in made["cells"] if row["time_s"] is not None]
    if not cells:
        return []
    places = sorted({(row["data"], row["edge_skew"]) for row in cells})
    order = [planner for planner in PLANNERS if planner in distinct(cells, "planner")][::-1]

    def fill(index: int, axes: "Axes") -> None:
        data, skew = places[index]
        _panel(axes, where(cells, data=data, edge_skew=skew), order)

    facts = (
        "What is left of a speed-up when everybody takes the step that suits it?",
        "simulated time to the target, geometric mean with 95 % interval; steps chosen on other seeds",
    )
    titles = [f"{name(data)}, skew {skew:g}" for data, skew in places]
    return panels(folder / "own-step", facts, titles, fill)


def _panel(axes: "Axes", rows: Rows, order: Sequence[str]) -> None:
    looks = {"preset": (MUTED, "o", "none", "the paper's step"), "own": (BLUE, "o", BLUE, "its own best step")}
    for step, (shade, marker, face, label) in looks.items():
        here = [row for row in where(rows, step=step) if row["reached"] == row["seeds"]]
        seconds = [row["time_s"] for row in here]
        ends = [
            [abs((row[end] or row["time_s"]) - row["time_s"]) for row in here] for end in ("time_low_s", "time_high_s")
        ]
        axes.errorbar(
            seconds, [order.index(row["planner"]) for row in here], xerr=ends,
            color=shade, marker=marker, markerfacecolor=face, linestyle="none", capsize=2, label=label,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), order)
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.set_xlabel("simulated time to the target (s)", color=INK)


STUDY = Study(
    name="own-step",
    title="Simulated time to an accuracy, every planner at its own best outer step",
    about="The paper's outer step is short for every planner. Here each takes the step (of "
    f"{', '.join(f'{step:g}' for step in STEPS)}) and the broadcast that were best for it on development seeds "
    f"{', '.join(map(str, DEVELOPMENT))}, and is judged on others. A speed-up above 1 says `fastest` is faster.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("speedups", "cells", "choices"),
)
