"""The figure of a sweep: every cell's curve with a band over its seeds, and when it reached the first target."""

from collections.abc import Sequence
from pathlib import Path

from hpfl.reporting.compare_figure import compare_figure
from hpfl.sweeps.swept import Swept

FIGURES = "figures"
FORMATS = ("svg", "png", "pdf")


def draw(sweep: Swept, out: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw it in each of these formats; nothing where no run has rounds."""
    groups, target = sweep.groups, sweep.targets[0]
    if not groups:
        return []
    ways = sweep.ways(target)
    return [compare_figure(groups, ways, out / FIGURES / f"curves.{kind}", target=target) for kind in formats]
