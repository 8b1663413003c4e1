"""Study `clocks`: the paper's clock, where a round begins afresh, against events, where work carries over."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.reporting.intervals import geometric
from hpfl.reporting.summary import time_to_target
from hpfl.studies.beyond import hpfl_case
from hpfl.studies.cases import Scale
from hpfl.studies.curves import SHADES, Line, draw_lines, name, panels, plain_log
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, distinct, evaluations, where
from hpfl.sweeps.parts import StudyPart

CLOCKS = ("round", "event")
PLANNERS = ("full", "paper", "joint", "fastest")
SLOW = 2000.0
"""Cycles per bit with which a UE computes for about a second; the preset's 20 leave hardly any work to carry over."""
GRID: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "preset": (PLANNERS, {}),
    "slow": (("paper", "joint"), {"network.cycles_per_bit": SLOW, "planning.max_edges": 5}),
}
THIN = {"preset": ("paper",), "slow": ("paper",)}
TARGETS: Mapping[str, tuple[float, ...]] = {"mnist": (0.8, 0.9), "mnist-mini": (0.5, 0.7)}
"""Personalised accuracies that are timed; the last is drawn."""
MOMENTS = 40
_KEYS = ("data", "computing", "planner", "clock")


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """HPFL with each planner under each clock; those of clock `round` and the preset's UEs are figure 3's."""
    return [
        hpfl_case(scale, "mnist", seed, planner=planner, vary={**changes, "training.clock": clock})
        for seed in seeds
        for speed, (planners, changes) in GRID.items()
        for planner in (THIN[speed] if scale.thin else planners)
        for clock in CLOCKS
    ]


def tables(found: Sequence[Found]) -> Tables:
    """`runs`; `means` over seeds; `ratios` of the clocks paired by seed; `curves` of accuracy over seconds."""
    found = [_with_speed(part) for part in found]
    runs = [_run(part) for part in found]
    columns = ("seconds_per_round", "time_to_target_s", "max_staleness", "final_accuracy")
    places = dict.fromkeys((row["computing"], row["planner"]) for row in runs)
    return {
        "ratios": [row for speed, planner in places for row in _ratios(where(runs, computing=speed, planner=planner))],
        "means": [row | _reached(runs, row) for row in bands(runs, (*_KEYS, "target"), columns)],
        "runs": runs,
        "curves": curves(evaluations(found)),
    }


def _with_speed(part: Found) -> Found:
    """The run with the label `computing`: as the preset's UEs do, or slowly."""
    computing = "slow" if part["labels"].get("cycles_per_bit") == SLOW else "preset"
    return {**part, "labels": {**part["labels"], "computing": computing}}


def _run(part: Found) -> TableRow:
    labels, staleness, count = part["labels"], part["rounds"]["max_staleness"], len(part["rounds"]["time_s"])
    run_s = part["rounds"]["time_s"][-1] if count else 0.0
    target = TARGETS[labels["data"]][-1]
    measured = [row for row in evaluations([part]) if row["personalised_accuracy"] is not None]
    reached = {f"to_{goal:g}_s": time_to_target(measured, goal) for goal in TARGETS[labels["data"]]}
    times = {key: None if found is None else found.time_s for key, found in reached.items()}
    return {
        **{key: labels[key] for key in (*_KEYS, "seed")},
        "rounds": count,
        "run_s": run_s,
        "seconds_per_round": run_s / count if count else None,
        **times,
        "target": target,
        "time_to_target_s": times[f"to_{target:g}_s"],
        "max_staleness": max(staleness, default=None),
        "final_accuracy": measured[-1]["personalised_accuracy"] if measured else None,
    }


def _reached(runs: Rows, mean: TableRow) -> TableRow:
    here = where(runs, **{key: mean[key] for key in _KEYS})
    return {"reached": sum(row["time_to_target_s"] is not None for row in here)}


def _ratios(runs: Rows) -> Iterator[TableRow]:
    """What `round` takes over what `event` does, above 1 where events are faster."""
    ours = {row["seed"]: row for row in where(runs, clock="event")}
    theirs = {row["seed"]: row for row in where(runs, clock="round")}
    for column in ("seconds_per_round", "time_to_target_s"):
        pairs = [(theirs[seed][column], ours[seed][column]) for seed in ours if seed in theirs]
        found = geometric([slow / fast for slow, fast in pairs if slow and fast])
        if found is not None:
            ends = {"round_over_event_low": found.low, "round_over_event_high": found.high, "seeds": found.count}
            place = {key: runs[0][key] for key in ("data", "computing", "planner")}
            yield {**place, "quantity": column, "round_over_event": found.mean, **ends}


def curves(rows: Rows) -> Rows:
    """Accuracy at the same moments for every seed, between those that all seeds have, with means and intervals."""
    out: Rows = []
    for values in dict.fromkeys(tuple(row[key] for key in _KEYS) for row in rows):
        place = dict(zip(_KEYS, values, strict=True))
        here = where(rows, **place)
        runs = [where(here, seed=seed) for seed in distinct(here, "seed")]
        first, last = max(run[0]["time_s"] for run in runs), min(run[-1]["time_s"] for run in runs)
        moments = np.geomspace(first, last, MOMENTS) if last > first else np.array([first])
        measured = [{"time_s": at, "personalised_accuracy": value} for run in runs for at, value in _at(run, moments)]
        out += [place | row for row in bands(measured, ("time_s",), ("personalised_accuracy",))]
    return out


def _at(run: Rows, moments: Any) -> Iterator[tuple[float, float]]:
    values = np.interp(moments, [row["time_s"] for row in run], [row["personalised_accuracy"] for row in run])
    return zip(moments.tolist(), values.tolist(), strict=True)


def draw(made: Tables, folder: Path) -> list[Path]:
    """One row for each speed of computing: accuracy over seconds, seconds per round, and seconds to the target."""
    means, data = made["means"], name(made["means"][0]["data"])
    speeds = distinct(means, "computing")
    kinds = ("curves", "seconds_per_round", "time_to_target_s")
    cells = [(speed, kind) for speed in speeds for kind in kinds]
    words = {"preset": "UEs of the preset", "slow": "Slow UEs"}
    heads = dict(zip(kinds, ("", ": a round", f": to {100 * means[0]['target']:.0f} % accuracy"), strict=True))

    def fill(index: int, axes: Any) -> None:
        speed, kind = cells[index]
        if kind == "curves":
            _accuracy(axes, where(made["curves"], computing=speed))
        else:
            _seconds(axes, where(means, computing=speed), kind)

    facts = (f"{data}: work that carries over, and work that does not", "means over seeds, bands and whiskers: 95 %")
    titles = [words[speed] + heads[kind] for speed, kind in cells]
    return panels(folder / "clocks", facts, titles, fill, rows=len(speeds))


def _accuracy(axes: Any, rows: Rows) -> None:
    """Clock `round` broad and pale beneath, `event` thin above it: where they agree, both are seen."""
    lines = [
        Line(
            where(rows, planner=planner, clock=clock),
            f"{name(planner)}, {clock}",
            SHADES[planner] if clock == "event" else pale(SHADES[planner]),
            width=1.2 if clock == "event" else 4.0,
        )
        for planner in distinct(rows, "planner")
        for clock in CLOCKS
    ]
    draw_lines(axes, lines, "time_s", "personalised_accuracy")
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.set_xlabel("simulated time (s)")


def pale(colour: str) -> str:
    """A colour mixed with as much white."""
    return "#" + "".join(f"{(int(colour[at : at + 2], 16) + 255) // 2:02x}" for at in (1, 3, 5))


def _seconds(axes: Any, means: Rows, column: str) -> None:
    places = [(p, clock) for p in PLANNERS if p in distinct(means, "planner") for clock in CLOCKS]
    for place, (planner, clock) in enumerate(places):
        for row in where(means, planner=planner, clock=clock):
            _dot(axes, place, row, column)
    axes.set_yticks(range(len(places)), [f"{name(p).removesuffix(' (certified)')}, {clock}" for p, clock in places])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("simulated time (s)")


def _dot(axes: Any, place: float, row: TableRow, column: str) -> None:
    colour, value = SHADES[row["planner"]], row[column]
    if value is None:
        axes.annotate("  not reached", (0, place), va="center", fontsize=7, color=colour)
        return
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    whiskers = None if low is None else [[value - max(low, 0.0)], [high - value]]
    face = pale(colour) if row["clock"] == "round" else colour
    axes.errorbar(
        [value], [place], xerr=whiskers, fmt="o", color=colour, capsize=2.5, markersize=5.5, linewidth=1.2,
        markerfacecolor=face,
    )  # fmt: skip


STUDY = Study(
    name="clocks",
    title="The paper's clock against events",
    about="With clock `round` a called edge starts from zero; with `event` it goes on with what is left, and one that "
    "is not called has computed meanwhile. At the preset computing takes milliseconds and there is little to carry "
    "over, so UEs 100 times slower, with at most 5 edges a round, are run beside it. `fastest` is given four times the "
    "rounds of the others.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("ratios", "means"),
)
