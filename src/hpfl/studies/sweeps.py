"""HPFL with one setting varied: what figures 5, 6, 9 and 10 have in common."""

import math
from collections.abc import Callable, Sequence

from hpfl.reporting.style import SERIES
from hpfl.studies.cases import SHOWN, Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.convergence import draw, tables
from hpfl.studies.curves import Line, name
from hpfl.studies.study import Rows, Study, Tables
from hpfl.studies.tabulate import distinct, slopes, where
from hpfl.sweeps.parts import StudyPart


def sweep_study(
    figure: str,
    data: Sequence[str],
    about: tuple[str, str],
    sweep: tuple[str, Sequence[float]],
    claims: Callable[[Tables], list[Statement]],
) -> Study:
    """A study of `about` (title, text): HPFL with the proposed planner, a label of `SHOWN` swept over values.

    The first data set is drawn; others are run for claims that compare them.
    """  # fmt: skip
    label, values = sweep
    title, text = about

    def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
        if not scale.has(data[0]):
            return []
        return [
            case(scale, which, seed, vary={SHOWN[label]: value})
            for seed in seeds
            for which in data
            if scale.has(which)
            for value in values
        ]

    def lines(curves: Rows) -> list[Line]:
        first = [row for row in curves if row["data"] in _named(data[0])]
        return [
            Line(where(first, **{label: value}), f"{_SYMBOL[label]} = {value:g}", SERIES[index])
            for index, value in enumerate(sorted(distinct(first, label)))
        ]

    return Study(
        name=figure,
        title=title,
        about=text,
        parts=parts,
        tables=tables,
        draw=lambda made, folder: draw(made, folder / figure, title, lines),
        claims=claims,
    )


_SYMBOL = {"rho": "rho", "labels_per_ue": "l"}


def _named(data: str) -> tuple[str, ...]:
    return (data, f"{data}-mini")


def trends(made: Tables, claim: str, label: str, *, better: bool) -> list[Statement]:
    """As the label grows over its range accuracy rises and loss falls (`better`), or the other way round."""
    out = []
    for data in distinct(made["finals"], "data"):
        here = where(made["finals"], data=data)
        text = f"{name(data)}: {{}}, rise of the fitted line from the least {_SYMBOL[label]} to the greatest"
        for column, words, unit in (
            ("personalised_accuracy", "personalised accuracy", "points"),
            ("meta_loss", "personalised training loss", "nat"),
        ):
            upward = better == (column != "meta_loss")
            bounds = (0.0, math.inf) if upward else (-math.inf, 0.0)
            values = slopes(here, label, column)
            kind = {"claim": claim, "data": data, "text": text.format(words), "unit": unit}
            out.append(Statement(**kind, values=values, least=bounds[0], most=bounds[1]))
    return out
