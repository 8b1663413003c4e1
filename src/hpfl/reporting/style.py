"""How figures are made and saved: in the looks asked for, with quiet axes and times in the unit one would use."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl import atomic
from hpfl.arrays import FloatArray
from hpfl.reporting.looks import (
    BLUE,
    DASHES,
    FAINT,
    GREEN,
    INK,
    KINDS,
    LOOKS,
    MARKERS,
    MUTED,
    ORANGE,
    PAPER,
    PRINTED,
    PURPLE,
    SERIES,
    SKY,
    SLATE,
    VERMILLION,
    asked,
    drawn_as,
)
from hpfl.reporting.store import OutputError, writing

__all__ = [
    "BLUE", "DASHES", "FAINT", "GREEN", "INK", "KINDS", "LOOKS", "MUTED", "ORANGE", "PAPER", "PURPLE",
    "SERIES", "SKY", "SLATE", "VERMILLION", "FiguresUnavailableError", "asked", "colour", "dash", "drawing", "drawn_as",
    "headline", "marks", "percent_axis", "points", "refuse_unknown_kind", "rounds_on_top", "save", "save_all", "series",
    "time_unit", "whole_marks", "words",
]  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SCREEN_DPI = 100
HEADLINE_IN = 0.52
"""Height of a title and the line of facts under it."""


class FiguresUnavailableError(Exception):
    """Matplotlib is an optional extra, and is not installed."""


@contextmanager
def drawing(width_in: float, height_in: float, *, narrow_in: float | None = None) -> Iterator["Figure"]:
    """A figure of the looks asked for, to draw on and save within the block; no global state of pyplot is touched.

    Its height is `narrow_in` where it has but one column of a paper, and less by the headline where it has none.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FiguresUnavailableError("figures need matplotlib: pip install 'hpfl[figures]'") from error
    look = asked().look
    high_in = height_in if not look.printed else (look.narrow and narrow_in) or height_in - HEADLINE_IN
    with matplotlib.rc_context(dict(look.rc)):
        figure = Figure(figsize=(look.width_in or width_in, high_in), layout="constrained")
        FigureCanvasAgg(figure)
        plainly = figure.savefig

        def in_its_looks(*place: Any, **how: Any) -> None:  # whoever saves it later has fonts embedded too
            with matplotlib.rc_context(dict(look.rc)):
                plainly(*place, **how)

        figure.savefig = in_its_looks  # type: ignore[method-assign]
        yield figure


def refuse_unknown_kind(path: Path) -> None:
    """Refuse a figure's path by its suffix, before anything is drawn."""
    if path.suffix.lower() not in KINDS:
        raise OutputError(f"figure {path} ends in {path.suffix!r}; wanted .png, .svg or .pdf")


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure at once, of the kind its suffix says, and make the folders it lies in where they are missing."""
    refuse_unknown_kind(path)
    kind, content = path.suffix.lower(), io.BytesIO()
    figure.savefig(content, format=kind.lstrip("."), dpi=asked().look.dpi, metadata=KINDS[kind])
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, content.getvalue())
    return path


def save_all(figure: "Figure", stem: Path, *usual: str) -> list[Path]:
    """Write a figure in every kind of file that was asked for, else in those that are usual."""
    return [save(figure, stem.with_name(f"{stem.name}.{kind}")) for kind in asked().kinds or usual]


def headline(figure: "Figure", title: str, facts: str) -> None:
    """A title and, under it in grey, what the figure shows; a paper has captions instead."""
    if asked().look.printed:
        return
    height_in = figure.get_figheight()
    figure.text(0.012, 1 - 0.09 / height_in, title, fontsize=11.5, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.31 / height_in, facts, fontsize=8.5, color=MUTED, va="top")
    engine: Any = figure.get_layout_engine()  # constrained, as `drawing` made it
    engine.set(rect=(0, 0, 1, 1 - HEADLINE_IN / height_in))


def colour(index: int) -> str:
    """The colour of the series with this number."""
    shades = PRINTED if asked().look.printed else SERIES
    return shades[index % len(shades)]


def dash(index: int) -> str | tuple[int, tuple[float, ...]]:
    """A line style: in print that of the series, on a screen one that changes when the colours have been used up."""
    return DASHES[(index if asked().look.printed else index // len(SERIES)) % len(DASHES)]


def series(index: int) -> dict[str, Any]:
    """How the line with this number is drawn: colour and dashes, in print with marks as well."""
    look: dict[str, Any] = {"color": colour(index), "linestyle": dash(index)}
    return look | marks(index) if asked().look.printed else look


def marks(index: int) -> dict[str, Any]:
    """Hollow marks along a line, a few of them, by which it is known without its colour."""
    place = index % len(MARKERS)
    return {"marker": MARKERS[place], "markersize": 3.6, "markevery": (0.04 * (place + 1), 0.2), "fillstyle": "none"}


def words(shade: str) -> str:
    """The colour of a name: its line's, but black in print, where light words are not read."""
    return INK if asked().look.printed else shade


def points(size: float) -> float:
    """The size of small print, which a paper has not."""
    return float(asked().look.rc["font.size"]) if asked().look.printed else size


def whole_marks(axis: "Axis", most: int = 5) -> None:
    """Marks at whole numbers alone, for what is counted."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


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
