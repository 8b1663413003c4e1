"""Study `planner-gap`: how far plans are from the best there is, on the same rounds, by a bound no plan can beat."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.config import Config
from hpfl.experiment import Hooks
from hpfl.planning.planners import PLANNERS
from hpfl.planning.problem import RoundProblem
from hpfl.reporting.style import SKY
from hpfl.rng import Stream
from hpfl.studies.cases import Scale, case
from hpfl.studies.curves import SHADES, name, panels
from hpfl.studies.problems import posed_problems
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, distinct, where
from hpfl.sweeps.parts import StudyPart

PLANNED = ("joint", "alternating", "paper", "random", "shpfl")
"""All of them keep to P2's constraints; `full` does not keep to the cap, so the bound is none for it."""
STEERED = (("joint", 0.03), ("joint", 0.1), ("joint", 0.5), ("joint", 0.8), ("paper", 0.8))
"""Who decides what is done in a run, and at which rho."""
THIN = (("joint", 0.1), ("joint", 0.8))
OPTIMAL = 1e-6
"""A gap below this share of the plan's terms is rounding."""
_SCALE: Mapping[str, Any] = {"linthresh": 0.1, "linscale": 0.5}
"""Logarithmic above a tenth of a second, straight below, so that nothing given away can be seen."""
_LOOKS: Mapping[str, tuple[str, Any, float]] = {
    "joint": (SHADES["joint"], "-", 3.0),
    "alternating": (SKY, (0, (4, 1.5)), 1.7),
    "paper": (SHADES["paper"], "-", 1.7),
    "random": (SHADES["random"], "-", 1.7),
    "shpfl": (SHADES["shpfl"], (0, (1.5, 1.2)), 1.7),
}


def replanned(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Run as configured and note every round's problem; then plan each with every planner, apart from the run."""
    return {"plans": plans_of(posed_problems(config, device=device, data_dir=data_dir, hooks=hooks))}


def plans_of(posed: Sequence[tuple[RoundProblem, Stream]]) -> dict[str, Any]:
    """Round by round `joint`'s lower bound, the size of its plan's terms, and every planner's objective and seconds."""
    plans = {who: [PLANNERS.get(who)(problem, {}, stream)[0] for problem, stream in posed] for who in PLANNED}
    best = plans["joint"]
    return {
        "lower_bound": [plan.lower_bound for plan in best],
        "scale": [posed[i][0].scale(plan.scheduled, plan.round_latency_s) for i, plan in enumerate(best)],
        "objective": {who: [plan.objective for plan in made] for who, made in plans.items()},
        "latency_s": {who: [plan.round_latency_s for plan in made] for who, made in plans.items()},
    }


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """Runs steered by `joint` at several rho, and by the proposed planner, whose choices leave other problems."""
    grid = THIN if scale.thin else STEERED
    return [_probed(scale, seed, steering, rho) for seed in seeds for steering, rho in grid]


def _probed(scale: Scale, seed: int, steering: str, rho: float) -> StudyPart:
    part = case(scale, "mnist", seed, planner=steering, vary={"planning.rho": rho})
    return replace(part, name=f"planner-gap/{part.name}", probe=replanned)


def tables(found: Sequence[Found]) -> Tables:
    """`gaps` of every planner over all rounds, and `rounds`: the objectives that they are computed from."""
    rounds = [row for part in found for row in _rounds(part)]
    return {"gaps": [row for place in _places(rounds) for row in _gaps(rounds, place)], "rounds": rounds}


def _rounds(part: Found) -> Iterator[TableRow]:
    labels, plans = part["labels"], part["plans"]
    place = {"data": labels["data"], "steered_by": labels["planner"], "rho": labels["rho"], "seed": labels["seed"]}
    for index, bound in enumerate(plans["lower_bound"]):
        objectives = {who: values[index] for who, values in plans["objective"].items()}
        seconds = {f"{who}_latency_s": values[index] for who, values in plans["latency_s"].items()}
        yield {
            **place, "round": index + 1, "lower_bound": bound, "scale": plans["scale"][index], **objectives, **seconds,
        }  # fmt: skip


def _places(rounds: Rows) -> list[TableRow]:
    keys = ("data", "steered_by", "rho")
    return [
        dict(zip(keys, place, strict=True)) for place in dict.fromkeys(tuple(row[k] for k in keys) for row in rounds)
    ]


def seconds_lost(rows: Sequence[TableRow], planner: str) -> FloatArray:
    """What a plan gives away in each round, in seconds of latency: `(objective - lower bound) / (1 - rho)`.

    A share of the objective would mean nothing where importance and latency cancel; a second always costs `1 - rho`.
    """
    gaps = np.array([(row[planner] - row["lower_bound"]) / (1.0 - row["rho"]) for row in rows], dtype=np.float64)
    return np.maximum(gaps, 0.0)


def _gaps(rounds: Rows, place: TableRow) -> Iterator[TableRow]:
    here = where(rounds, **place)
    for planner in PLANNED:
        lost_s = seconds_lost(here, planner)
        gap = np.array([row[planner] - row["lower_bound"] for row in here])
        per_seed = [
            {"seed": seed, "lost_s": float(seconds_lost(where(here, seed=seed), planner).mean())}
            for seed in distinct(here, "seed")
        ]
        yield {
            **place,
            "planner": planner,
            "rounds": len(here),
            "optimal_share": float(np.mean(gap < OPTIMAL * np.array([row["scale"] for row in here]))),
            **{key: value for key, value in bands(per_seed, (), ("lost_s",))[0].items() if key != "seeds"},
            **_spread("lost_s", lost_s),
            **_spread("gap_of_bound", gap / np.abs([row["lower_bound"] for row in here])),
            **_spread("gap_of_terms", gap / np.array([row["scale"] for row in here])),
            "seeds": len(per_seed),
        }


def _spread(word: str, values: FloatArray) -> TableRow:
    marks = zip(("median", "p95", "worst"), np.percentile(values, (50, 95, 100)), strict=True)
    return {f"{word}_{mark}": float(value) for mark, value in marks}


def _short(planner: str) -> str:
    return name(planner).removesuffix(" (certified)")


def draw(made: Tables, folder: Path) -> list[Path]:
    """How the loss is spread over rounds, and how it goes as training does."""
    places = _places(made["rounds"])
    titles = [f"rho = {place['rho']:g}, steered by {_short(place['steered_by'])}" for place in places]
    rows = -(-len(places) // 3)
    most_s = 10.0 ** np.ceil(np.log10(max(1.0, *(seconds_lost(made["rounds"], who).max() for who in PLANNED))))

    def spread(index: int, axes: Any) -> None:
        _distribution(axes, where(made["rounds"], **places[index]), most_s)

    def course(index: int, axes: Any) -> None:
        _course(axes, where(made["rounds"], **places[index]), most_s)

    best = "against the best plan there is, on the same problems"
    facts = ("Seconds of latency that a plan gives away", f"{best}: share of rounds with at most as much")
    over = (
        "Seconds of latency that plans give away as training goes on",
        f"{best}: median of seeds, band: all of them",
    )
    return panels(folder / "planner-gap", facts, titles, spread, rows=rows) + panels(
        folder / "planner-gap-rounds", over, titles, course, rows=rows
    )


def _distribution(axes: Any, rows: Rows, most_s: float) -> None:
    from matplotlib.ticker import PercentFormatter

    for planner, (colour, dash, width) in _LOOKS.items():
        lost_s = np.sort(seconds_lost(rows, planner))
        share = np.arange(1, lost_s.size + 1) / lost_s.size
        axes.step(
            [0.0, *lost_s, most_s], [0.0, *share, 1.0], where="post", color=colour, linestyle=dash, linewidth=width,
            label=_short(planner),
        )  # fmt: skip
    axes.set_xscale("symlog", **_SCALE)
    axes.set_xlim(-0.02, most_s)
    _ticks(axes.xaxis, most_s)
    axes.set(xlabel="seconds given away in a round", ylabel="share of rounds", ylim=(0, 1.03))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def _course(axes: Any, rows: Rows, most_s: float) -> None:
    seeds = distinct(rows, "seed")
    for planner, (colour, dash, width) in _LOOKS.items():
        lost_s = [seconds_lost(where(rows, seed=seed), planner) for seed in seeds]
        table = np.stack([each[: min(map(len, lost_s))] for each in lost_s])
        across = np.arange(1, table.shape[1] + 1)
        axes.plot(across, np.median(table, 0), color=colour, linestyle=dash, linewidth=width, label=_short(planner))
        axes.fill_between(across, table.min(0), table.max(0), color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("symlog", **_SCALE)
    axes.set_ylim(-0.02, most_s)
    _ticks(axes.yaxis, most_s)
    axes.set(xlabel="round", ylabel="seconds given away")


def _ticks(axis: Any, most_s: float) -> None:
    ticks = [0.0, 0.1, *10.0 ** np.arange(0, np.log10(most_s) + 0.5)]
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


STUDY = Study(
    name="planner-gap",
    title="How far plans are from the best there is",
    about="Every round of a run is planned again by every planner, and its objective (P2) compared with the lower "
    "bound that comes with `joint`'s plan. The gap is told in seconds of latency, (objective - bound) / (1 - rho): by "
    "so much shorter a round would have to be to make up for it. `full` is not there: it goes beyond the cap on edges.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("gaps",),
)
