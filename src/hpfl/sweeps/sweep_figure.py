"""The figure of a sweep: a curve with a band over seeds for each cell, and the way to the last target all reach."""

from pathlib import Path

from hpfl.reporting.compare_figure import compare_figure
from hpfl.reporting.looks import LOOKS, asked, drawn_as
from hpfl.sweeps.swept import Swept

FIGURES, CURVES = "figures", "curves"
FORMATS = ("svg", "pdf")
_SCREEN = "screen"


def draw(sweep: Swept, out: Path) -> list[Path]:
    """Draw it for the page, and in the looks and kinds of file that are asked for; nothing where no run has rounds."""
    wanted = asked()
    look = next(name for name, each in LOOKS.items() if each is wanted.look)
    with drawn_as(_SCREEN):
        usual = [_drawn(sweep, out / FIGURES / f"{CURVES}.{kind}") for kind in FORMATS]
    kinds = wanted.kinds or (() if look == _SCREEN else FORMATS[1:])
    name = CURVES if look == _SCREEN else f"{CURVES}-{look}"
    more = [out / FIGURES / f"{name}.{kind}" for kind in kinds]
    drawn = [*usual, *(_drawn(sweep, path) for path in more if path not in usual)]
    return [path for path in drawn if path is not None]


def _drawn(sweep: Swept, path: Path) -> Path | None:
    groups = sweep.groups
    if not groups:
        return None
    reached = [target for target in sweep.targets if all(each.all_arrived for each in sweep.ways(target))]
    target = (reached or sweep.targets)[-1]
    path.parent.mkdir(exist_ok=True)
    return compare_figure(groups, sweep.ways(target), path, target=target)
