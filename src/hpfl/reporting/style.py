"""How figures look: colours that everybody can tell apart, quiet axes, times in the unit one would use."""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl import atomic
from hpfl.arrays import FloatArray
from hpfl.reporting.store import OutputError, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, SLATE, FAINT, PAPER = "#1f2933", "#6b7785", "#9fb0c3", "#e3e7ec", "#ffffff"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#b5579b", "#e69f00", "#56b4e9"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
"""Okabe and Ito's palette, told apart with any kind of colour vision; purple a little darker for thin lines."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2)), (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)))
DPI = 150
SCREEN_DPI = 100
KINDS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Suffixes of figures, each with what is left out of its file so that the same figure gives the same bytes."""

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "svg.hashsalt": "hpfl",
    "figure.facecolor": PAPER,
}


class FiguresUnavailableError(Exception):
    """Matplotlib is an optional extra, and is not installed."""


@contextmanager
def drawing(width_in: float, height_in: float) -> Iterator["Figure"]:
    """A figure of our looks to draw on and save within the block; no global state of pyplot is touched."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FiguresUnavailableError("figures need matplotlib: pip install 'hpfl[figures]'") from error
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def refuse_unknown_kind(path: Path) -> None:
    """Refuse a figure's path by its suffix, before anything is drawn."""
    if path.suffix.lower() not in KINDS:
        raise OutputError(f"figure {path} ends in {path.suffix!r}; wanted .png, .svg or .pdf")


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure at once, of the kind its suffix says, and make the folders it lies in where they are missing."""
    refuse_unknown_kind(path)
    kind, content = path.suffix.lower(), io.BytesIO()
    figure.savefig(content, format=kind.lstrip("."), dpi=DPI, metadata=KINDS[kind])
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, content.getvalue())
    return path


def headline(figure: "Figure", title: str, facts: str) -> None:
    """A title and, under it in grey, what the figure shows."""
    height_in = figure.get_figheight()
    figure.text(0.012, 1 - 0.09 / height_in, title, fontsize=11.5, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.31 / height_in, facts, fontsize=8.5, color=MUTED, va="top")
    engine: Any = figure.get_layout_engine()  # constrained, as `drawing` made it
    engine.set(rect=(0, 0, 1, 1 - 0.52 / height_in))


def colour(index: int) -> str:
    """The colour of the series with this number."""
    return SERIES[index % len(SERIES)]


def dash(index: int) -> str | tuple[int, tuple[float, ...]]:
    """A line style that changes when the colours have been used up."""
    return DASHES[index // len(SERIES) % len(DASHES)]


def time_unit(longest_s: float) -> tuple[float, str]:
    """Seconds per unit, and its name, for an axis that reaches to `longest_s`."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if longest_s >= 3 * size:
            return size, name
    return 1.0, "s"


def percent_axis(axes: "Axes", low: float, high: float) -> None:
    """A y axis in per cent around the shares `low` to `high`, from 0 unless all is far above."""
    from matplotlib.ticker import PercentFormatter

    bottom = 0.0 if low < 0.5 else max(0.0, low - 0.15 * (high - low) - 0.02)
    axes.set_ylim(bottom, min(1.02, high + 0.12 * (high - bottom)))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def rounds_on_top(axes: "Axes", time_s: FloatArray, unit_s: float) -> None:
    """Mark on a second axis when which round ended; rounds are unevenly long, so their marks are uneven."""
    from matplotlib.ticker import MaxNLocator

    candidates = MaxNLocator(7, integer=True).tick_values(0, len(time_s))
    least_s = 0.045 * float(time_s[-1])
    chosen: list[int] = []
    for number in (int(candidate) for candidate in candidates if 1 <= candidate <= len(time_s)):
        if not chosen or time_s[number - 1] - time_s[chosen[-1] - 1] > least_s:
            chosen.append(number)
    top = axes.twiny()
    top.set_xlim(axes.get_xlim())
    top.set_xticks([time_s[number - 1] / unit_s for number in chosen], [str(number) for number in chosen])
    top.set_xlabel("round", color=MUTED, labelpad=4)
    top.tick_params(axis="x", colors=MUTED, labelcolor=MUTED, length=3)
    top.grid(visible=False)
    top.spines["top"].set_visible(True)
    top.spines["top"].set_color(FAINT)


def end_labels(axes: "Axes", entries: Sequence[tuple[float, str, str]], *, gap: float = 0.055) -> None:
    """Name lines at their right ends, `(y, text, colour)`, pushed apart so that none hides another.

    Where there are more lines than colours, each name has a piece of its line before it.
    """
    low, high = axes.get_ylim()
    step = gap * (high - low)
    places = spread([entry[0] for entry in entries], step, high, low)
    dashed = len(entries) > len(SERIES)
    for index, ((_, text, shade), place) in enumerate(zip(entries, places, strict=True)):
        axes.annotate(
            text, (1.0, place), xycoords=axes.get_yaxis_transform(), xytext=(33 if dashed else 5, 0),
            textcoords="offset points", color=shade, va="center", annotation_clip=False,
        )  # fmt: skip
        if dashed:
            look: dict[str, Any] = {"color": shade, "linestyle": dash(index), "clip_on": False}
            axes.plot([1.008, 1.05], [place, place], transform=axes.get_yaxis_transform(), **look)


def spread(wanted: Sequence[float], step: float, high: float, low: float = -math.inf) -> list[float]:
    """Places near those wanted, at least `step` apart, none above `high`, and none below `low` if there is room."""
    places, ceiling, floor = [0.0] * len(wanted), high, low
    falling = sorted(range(len(wanted)), key=lambda i: -wanted[i])
    for index in falling:
        places[index] = min(wanted[index], ceiling)
        ceiling = places[index] - step
    for index in reversed(falling):
        places[index] = max(places[index], floor)
        floor = places[index] + step
    return places
