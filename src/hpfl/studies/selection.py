"""{HFL, HPFL} x {full, proposed, random, joint}: what figures 3 and 4 have in common."""

from collections.abc import Sequence

from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.convergence import draw, tables
from hpfl.studies.curves import Line, name, planner_line
from hpfl.studies.study import Rows, Study, Tables
from hpfl.studies.tabulate import differences, distinct, where
from hpfl.sweeps.parts import StudyPart

PLANNERS = ("full", "paper", "random", "joint")
MODES = PLANNERS[:3]
ALMOST = 0.01
"""Accuracies that differ by less than this are almost the same (C3)."""


def selection_study(figure: str, data: str, title: str) -> Study:
    """The study of one data set."""

    def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
        if not scale.has(data):
            return []
        grid = [(system, planner) for system in ("hpfl", "hfl") for planner in PLANNERS]
        return [case(scale, data, seed, system=system, planner=planner) for seed in seeds for system, planner in grid]

    return Study(
        name=figure,
        title=title,
        about="HFL and HPFL, each with full, proposed and random selection of edges, and with the certified planner "
        "`joint` beside them. Both systems are measured alike: after one adaptation step (above), and without (below).",
        parts=parts,
        tables=tables,
        draw=lambda made, folder: draw(made, folder / figure, title, _lines),
        claims=statements,
    )


def _lines(curves: Rows) -> list[Line]:
    return [
        planner_line(
            where(curves, system=system, planner=planner),
            planner,
            label=f"{system.upper()}, {name(planner)}",
            dash="-" if system == "hpfl" else (0, (4, 1.6)),
        )
        for system in ("hpfl", "hfl")
        for planner in PLANNERS
    ]


def statements(made: Tables) -> list[Statement]:
    """C1 and C2, and for MNIST C3, of final values."""
    return [
        statement
        for data in distinct(made["finals"], "data")
        for statement in (*_personalised(made, data), *_ordered(made, data), *_almost(made, data))
    ]


def _of(made: Tables, data: str, system: str, planner: str) -> Rows:
    return where(made["finals"], data=data, system=system, planner=planner)


def _personalised(made: Tables, data: str) -> list[Statement]:
    out = []
    for mode in MODES:
        ours, theirs = _of(made, data, "hpfl", mode), _of(made, data, "hfl", mode)
        out += [
            Statement(
                claim="C1", data=data, text=f"{name(data)}, {name(mode)}: personalised accuracy of HPFL less HFL's",
                unit="points", values=differences(ours, theirs, "personalised_accuracy"), least=0.0,
            ),
            Statement(
                claim="C1", data=data,
                text=f"{name(data)}, {name(mode)}: personalised training loss of HPFL less HFL's",
                unit="nat", values=differences(ours, theirs, "meta_loss"), most=0.0,
            ),
        ]  # fmt: skip
    return out


def _ordered(made: Tables, data: str) -> list[Statement]:
    out = []
    for better, worse in (("full", "paper"), ("paper", "random")):
        ours, theirs = _of(made, data, "hpfl", better), _of(made, data, "hpfl", worse)
        text = f"{name(data)}, HPFL: {{}} of {name(better)} less that of {name(worse)}"
        out += [
            Statement(
                claim="C2", data=data, text=text.format("personalised accuracy"), unit="points",
                values=differences(ours, theirs, "personalised_accuracy"), least=0.0,
            ),
            Statement(
                claim="C2", data=data, text=text.format("personalised training loss"), unit="nat",
                values=differences(ours, theirs, "meta_loss"), most=0.0,
            ),
        ]  # fmt: skip
    return out


def _almost(made: Tables, data: str) -> list[Statement]:
    if not data.startswith("mnist"):
        return []
    values = differences(_of(made, data, "hpfl", "full"), _of(made, data, "hpfl", "paper"), "personalised_accuracy")
    text = f"{name(data)}, HPFL: personalised accuracy of full less that of proposed, within {100 * ALMOST:g} point"
    return [Statement(claim="C3", data=data, text=text, unit="points", values=values, least=-ALMOST, most=ALMOST)]
