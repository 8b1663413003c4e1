"""The picture of `whole-cost`: everybody's seconds to the target, one panel for each data set and skew."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpfl.reporting.style import BLUE, INK, MUTED
from hpfl.studies.curves import name, panels, plain_log
from hpfl.studies.study import TableRow, Tables
from hpfl.studies.tabulate import where
from hpfl.studies.whole_cost_tables import BEST_FIXED
from hpfl.studies.whole_cost_ways import OURS, PUBLISHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORDER = (PUBLISHED, "shpfl", "paper+p4", "joint", "full", "random-1", "round-robin", BEST_FIXED, OURS)


def draw(made: Tables, folder: Path) -> list[Path]:
    """`whole-cost.svg` and `.png` in `folder`, of the places where `fastest` and a rival arrived."""
    every = {
        place: _shown(made, place) for place in dict.fromkeys((row["data"], row["place"]) for row in made["cells"])
    }
    drawn = {place: rows for place, rows in every.items() if len(rows) > 2}
    if not drawn:
        return []

    def fill(index: int, axes: "Axes") -> None:
        _panel(axes, list(drawn.values())[index])

    facts = (
        "Everything charged, everybody at its best codec, step and hearers",
        "simulated time to the target, geometric mean with 95 % interval; no mark where not every seed arrived",
    )
    titles = [f"{name(data)}, {place}" for data, place in drawn]
    return panels(folder / "whole-cost", facts, titles, fill, rows=1 if len(drawn) < 3 else 2)


def _shown(made: Tables, place: tuple[str, str]) -> dict[str, TableRow]:
    """The cells of a place by who they are, all of whose seeds arrived; nothing where there are no rivals."""
    here = where(made["cells"], data=place[0], place=place[1])
    if not where(here, group="rivals"):
        return {}
    best = next((row["which"] for row in where(made["versus"], data=place[0], place=place[1], rival=BEST_FIXED)), None)
    whole = [row for row in here if row["reached"] == row["seeds"]]
    named = {row["contender"]: row for row in whole if row["group"] in {"ours", "published", "rivals"}}
    fixed = [row for row in whole if row["group"] == "fixed" and row["contender"] == best]
    return named | ({BEST_FIXED: fixed[0]} if fixed else {})


def _panel(axes: "Axes", rows: dict[str, TableRow]) -> None:
    order: Sequence[str] = [who for who in _ORDER if who in rows]
    for height, who in enumerate(order):
        row = rows[who]
        ends = [[abs((row[end] or row["time_s"]) - row["time_s"])] for end in ("time_low_s", "time_high_s")]
        axes.errorbar(
            [row["time_s"]], [height], xerr=ends,
            color=BLUE if who == OURS else MUTED, marker="o", linestyle="none", capsize=2,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), order)
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.set_xlabel("simulated time to the target (s)", color=INK)
