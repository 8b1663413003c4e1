"""Figure 7: round latency and total importance against rounds, on both data sets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.curves import draw_lines, name, panels, planner_line
from hpfl.studies.study import Found, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, by_seed, distinct, per_round, where
from hpfl.sweeps.parts import StudyPart

DATA = ("mnist", "cifar10")
PLANNERS = ("paper", "joint")
WINDOWS = 30
"""Rounds are averaged over thirtieths of a run: fading makes single ones noisy."""
QUANTITIES = {"latency_s": "latency", "importance": "importance"}


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """HPFL with the proposed planner and the certified one; figures 3 and 4 share these runs."""
    here = [data for data in DATA if scale.has(data)]
    return [case(scale, data, seed, planner=planner) for seed in seeds for data in here for planner in PLANNERS]


def tables(found: Sequence[Found]) -> Tables:
    """`rounds` (every run and round), and `windows` (means over windows of rounds and over seeds)."""
    rows = per_round(found, ("time_s", *QUANTITIES, "num_scheduled"))
    lengths = {data: max(row["round"] for row in where(rows, data=data)) for data in distinct(rows, "data")}
    windowed = [{**row, "window": _window(row["round"], lengths[row["data"]])} for row in rows]
    columns = (*QUANTITIES, "num_scheduled")
    each = bands(windowed, ("data", "planner", "seed", "window"), columns)  # rounds of a seed are no independent draws
    means = bands(each, ("data", "planner", "window"), columns)
    return {"rounds": rows, "windows": means}


def _window(number: int, length: int) -> float:
    """The middle of the window that a round lies in."""
    width = max(1, length // WINDOWS)
    last = min(length, ((number - 1) // width + 1) * width)
    return last - (width - 1) / 2


def draw(made: Tables, folder: Path) -> list[Path]:
    """One row per data set: latency, importance, and how many edges were scheduled."""
    data = distinct(made["windows"], "data")
    columns = (*QUANTITIES, "num_scheduled")
    cells = [(which, column) for which in data for column in columns]

    def fill(index: int, axes: Any) -> None:
        which, column = cells[index]
        lines = [planner_line(where(made["windows"], data=which, planner=planner), planner) for planner in PLANNERS]
        draw_lines(axes, lines, "window", column)
        axes.set_xlabel("round")
        axes.set_ylim(bottom=0)

    facts = (
        "Latency and importance, round by round",
        "means over windows of rounds and over seeds, band: 95 % interval",
    )
    return panels(folder / "fig7", facts, [name(which) for which, _ in cells], fill, rows=len(data))


def statements(made: Tables) -> list[Statement]:
    """C5: the last quarter of a run against its first."""
    return [
        Statement(
            claim="C5", data=data,
            text=f"{name(data)}, proposed: {words} of the last quarter of rounds over the first's, less 1",
            unit="ratio", values=by_seed(where(made["rounds"], data=data, planner="paper"), _change(column)), most=0.0,
        )
        for data in distinct(made["rounds"], "data")
        for column, words in QUANTITIES.items()
    ]  # fmt: skip


def _change(column: str) -> Any:
    def change(members: list[TableRow]) -> float | None:
        quarter = len(members) // 4
        ordered = [row[column] for row in sorted(members, key=lambda row: row["round"])]
        if not quarter or not sum(ordered[:quarter]):
            return None
        return float(sum(ordered[-quarter:]) / sum(ordered[:quarter]) - 1)

    return change


STUDY = Study(
    name="fig7",
    title="Round latency and total importance against rounds",
    about="HPFL with the proposed planner, and with the certified one beside it, at rho = 0.8.",
    parts=parts,
    tables=tables,
    draw=draw,
    claims=statements,
)
