"""The figure of a sweep: a curve with a band over seeds for each cell, and the way to the last target all reach."""

from collections.abc import Sequence
from pathlib import Path

from hpfl.reporting.compare_figure import compare_figure
from hpfl.sweeps.swept import Swept

FIGURES = "figures"
FORMATS = ("svg", "png", "pdf")


def draw(sweep: Swept, out: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw it in each of these formats; nothing where no run has rounds."""
    groups = sweep.groups
    if not groups:
        return []
    reached = [target for target in sweep.targets if all(each.all_arrived for each in sweep.ways(target))]
    target = (reached or sweep.targets)[-1]
    ways = sweep.ways(target)
    (out / FIGURES).mkdir(exist_ok=True)
    return [compare_figure(groups, ways, out / FIGURES / f"curves.{kind}", target=target) for kind in formats]
