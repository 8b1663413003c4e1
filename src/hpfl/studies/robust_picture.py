"""The picture of study `robust`: a grid of rules and attacks for each case, coloured by what is lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.studies.curves import panels
from hpfl.studies.study import Rows
from hpfl.studies.tabulate import where

_WHO = {"ues": "one in five UEs of a cell", "edges": "one in five edges"}


def draw(losses: Rows, folder: Path, attacks: Sequence[str], mean: str) -> list[Path]:
    """One panel per case; a cell has the accuracy of the honest, its colour the points below the clean mean."""
    cases = list(dict.fromkeys((row["labels_per_ue"], row["who"]) for row in losses))
    titles = [f"{_WHO[who]} hostile, l = {labels}" for labels, who in cases]

    def fill(index: int, axes: Any) -> None:
        labels, who = cases[index]
        rows = where(losses, labels_per_ue=labels, who=who)
        _grid(axes, rows, attacks, next((row["none"] for row in rows if row["rule"] == mean), None))

    facts = ("Combine rules against attacks", "personalised accuracy of honest UEs in per cent; means over seeds")
    return panels(folder / "robust", facts, titles, fill, rows=-(-len(cases) // 2))


def _grid(axes: Any, rows: Rows, attacks: Sequence[str], clean: float | None) -> None:
    values = [[row[attack] for attack in attacks] for row in rows]
    shades = [[float("nan") if v is None or clean is None else 100 * (v - clean) for v in row] for row in values]
    axes.imshow(shades, cmap="RdYlGn", vmin=-30, vmax=10, aspect="auto")
    for down, row in enumerate(values):
        for right, value in enumerate(row):
            said = "" if value is None else f"{100 * value:.0f}"
            axes.text(right, down, said, ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(attacks)), attacks, rotation=40, ha="right", fontsize=7)
    axes.set_yticks(range(len(rows)), [row["rule"] for row in rows], fontsize=7)
    axes.grid(visible=False)
