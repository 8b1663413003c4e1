"""Names of lines, each at the end of the line it names, or in a legend where a column is too narrow for that."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_NEAR = 0.012
"""Share of the axis by which a name may be off its line's end without a leader to it."""

_LONG = 22
"""Characters of a name of which two still stand side by side in one column of a paper."""


@dataclass(frozen=True, kw_only=True)
class LineEnd:
    """The last point of a line that is seen, what the line is called, and how it is drawn."""

    x: float
    y: float
    text: str
    look: Mapping[str, Any]


def name_lines(axes: "Axes", ends: Sequence[LineEnd], *, gap: float = 0.06) -> None:
    """Name lines right of the axes, at the heights of their ends, pushed apart so that none hides another.

    A name that was pushed away, or whose line ends before the axis, has a thin leader to the line's end. Where there
    are more lines than colours, and in print, each name has a piece of its line before it.
    """
    look = style.asked().look
    if look.narrow:
        _legend(axes, ends)
        return
    pieces = look.printed or len(ends) > len(style.SERIES)
    wanted = [_share(axes, end.y) for end in ends]
    for end, want, place in zip(ends, wanted, spread(wanted, gap, 1.0, 0.0), strict=True):
        _name(axes, end, want=want, place=place, piece=pieces)


def _name(axes: "Axes", end: LineEnd, *, want: float, place: float, piece: bool) -> None:
    shade = end.look["color"]
    if abs(place - want) > _NEAR or _share_x(axes, end.x) < 1 - _NEAR:
        thin = {"arrowstyle": "-", "color": shade, "linewidth": 0.6, "linestyle": ":", "shrinkA": 0, "shrinkB": 0}
        axes.annotate(
            "", (end.x, end.y), xytext=(1.02, place), textcoords="axes fraction", arrowprops=thin, annotation_clip=False
        )
    axes.annotate(
        end.text, (1.08 if piece else 1.025, place), xycoords="axes fraction", color=style.words(shade), va="center",
        annotation_clip=False, linespacing=1.15, gid="line-name",
    )  # fmt: skip
    if piece:
        drawn = dict(end.look) | ({"markevery": [1]} if "marker" in end.look else {})
        axes.plot([1.025, 1.0475, 1.07], [place] * 3, transform=axes.transAxes, clip_on=False, **drawn)


def _legend(axes: "Axes", ends: Sequence[LineEnd]) -> None:
    """Names above the axes in print, each with a piece of its line."""
    from matplotlib.lines import Line2D

    handles = [Line2D([0, 0.5, 1], [0, 0, 0], label=end.text, **(dict(end.look) | _middle(end))) for end in ends]
    columns = 2 if max((len(end.text) for end in ends), default=0) <= _LONG else 1
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, frameon=False, borderpad=0,
        handlelength=2.6, columnspacing=1.0, labelspacing=0.25, borderaxespad=0.2,
    )  # fmt: skip


def _middle(end: LineEnd) -> dict[str, Any]:
    return {"markevery": [1]} if "marker" in end.look else {}


def _share(axes: "Axes", y: float) -> float:
    """The height of a value as a share of the axis, whatever its scale; values beyond it are at its ends."""
    low, high = sorted(axes.get_ylim())
    to_share: Any = axes.transData + axes.transAxes.inverted()
    return min(max(float(to_share.transform((axes.get_xlim()[0], min(max(y, low), high)))[1]), 0.0), 1.0)


def _share_x(axes: "Axes", x: float) -> float:
    low, high = axes.get_xlim()
    return (x - low) / (high - low)


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


def clear_place(axes: "Axes", left: float, width: float) -> tuple[float, float]:
    """Where right of `left` a text `width` wide has room between the lines drawn, as near as may be.

    Gives where it begins, and its height as a share of the axis.
    """
    right, heights = axes.get_xlim()[1], np.linspace(0.06, 0.9, 43)
    found = [(-math.inf, left, 0.06)]
    for step, begin in enumerate(np.arange(left, max(right - width, left) + 1e-9, 0.04 * right)):
        near = [_share(axes, float(y)) for line in axes.lines for y in _heights_between(line, begin, begin + width)]
        room = np.abs(heights[:, None] - np.array(near or [2.0])[None]).min(axis=1)
        best = int(np.argmax(np.minimum(room, 0.1)))  # the lowest where there is room enough
        found.append((min(float(room[best]), 0.1) - 0.004 * step, float(begin), float(heights[best])))
    _, begin, height = max(found, key=lambda place: place[0])
    return begin, height


def _heights_between(line: "Line2D", left: float, right: float) -> FloatArray:
    x, y = (np.asarray(values, dtype=float) for values in line.get_data())
    if len(x) < 2 or x[-1] < left or x[0] > right:
        return np.empty(0)
    heights: FloatArray = np.interp(np.linspace(max(left, x[0]), min(right, x[-1]), 160), x, y)
    return heights
