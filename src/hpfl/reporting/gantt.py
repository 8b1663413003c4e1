"""The timeline as a picture: a row for every edge, a bar for every phase, an arrow for every update and model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.reporting import style
from hpfl.reporting.runs import is_deployed, named_folder, time_word
from hpfl.reporting.timeline import Bar, bars, read_timeline
from hpfl.training.phases import AGGREGATED, BACKHAUL, BROADCAST, COMPUTE, DROPPED, SUPERSEDED, UPLOAD, WAITING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_EDGES = 60
"""Rows that can still be told apart; a run with more shows its first ones."""

_LOOKS = {
    COMPUTE: (style.ORANGE, "UEs compute"),
    UPLOAD: (style.SKY, "UEs upload to the edge"),
    BACKHAUL: (style.BLUE, "edge uploads to the cloud"),
    WAITING: (style.FAINT, "waits"),
    BROADCAST: (style.GREEN, "receives the new model"),
}
_HATCHES = {UPLOAD: "////", BACKHAUL: "....", BROADCAST: "----"}
_LOST = {DROPPED: ("x", style.VERMILLION, "update dropped"), SUPERSEDED: ("|", style.PURPLE, "update superseded")}
_HEIGHT = 0.62


def draw_timeline(folder: Path, path: Path, rounds: tuple[int, int] | None = None) -> Path:
    """Draw the timeline of a run, or of the rounds `first` to `last`, as a Gantt picture (paper, Fig. 2)."""
    rows = read_timeline(folder, rounds)
    found = bars(rows)
    edges = sorted({bar.edge for bar in found})
    shown = edges[:MOST_EDGES]
    place = {edge: len(shown) - 1 - index for index, edge in enumerate(shown)}
    high_in = max(0.26 * len(shown), 0.42 * min(len(shown), 6))
    with style.drawing(9.0, 1.75 + high_in, narrow_in=1.5 + 0.7 * high_in) as figure:
        axes = figure.subplots()
        began_s, ended_s = min(bar.start_s for bar in found), max(bar.end_s for bar in found)
        unit_s, unit = style.time_unit(ended_s)
        here = [bar for bar in found if bar.edge in place]
        for bar in here:
            _draw(axes, bar, place[bar.edge], unit_s)
        _aggregations(axes, found, unit_s)
        axes.set_yticks(list(place.values()), [f"edge {edge}" for edge in place])
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.set_xlim(began_s / unit_s, ended_s / unit_s)
        axes.set_xlabel(f"{time_word(deployed=is_deployed(folder))} ({unit})")
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        _legend(figure, {bar.phase for bar in here if bar.phase != BROADCAST or bar.end_s > bar.start_s})
        more = f"; edges {shown[0]} to {shown[-1]} of {len(edges)}" if len(shown) < len(edges) else ""
        first, last = rows[0]["round"], rows[-1]["round"]
        style.headline(
            figure,
            "What every edge was doing, and when the cloud aggregated",
            f"{named_folder(folder).name}, rounds {first} to {last}{more}. Numbers: staleness of updates on arrival.",
        )
        return style.save(figure, path)


def _look(phase: str) -> dict[str, Any]:
    """The colour of a phase; in print a hatch too, so that it is known in grey."""
    colour = _LOOKS[phase][0]
    if not style.asked().look.printed:
        return {"facecolor": colour, "edgecolor": style.PAPER}
    return {"facecolor": colour, "edgecolor": style.INK, "hatch": _HATCHES.get(phase, "")}


def _draw(axes: "Axes", bar: Bar, row: int, unit_s: float) -> None:
    start, end = bar.start_s / unit_s, bar.end_s / unit_s
    if bar.phase in _LOOKS and end > start:
        height = _HEIGHT * (0.35 if bar.phase == WAITING else 1.0)
        axes.barh(row, end - start, left=start, height=height, linewidth=0.4, **_look(bar.phase))
    elif bar.phase == AGGREGATED:
        staleness = bar.round - 1 - bar.base_round
        size = 8 if style.asked().look.narrow else 10
        axes.plot(end, row, marker="o", markersize=size, color=style.INK, clip_on=False, zorder=5)
        axes.text(
            end, row, str(staleness), color=style.PAPER, ha="center", va="center_baseline", fontsize=6.5, zorder=6
        )
    elif bar.phase in _LOST:
        marker, colour, _ = _LOST[bar.phase]
        axes.plot(end, row, marker=marker, markersize=8, markeredgewidth=2, color=colour, clip_on=False, zorder=5)


def _aggregations(axes: "Axes", found: list[Bar], unit_s: float) -> None:
    """A line for every aggregation, with the number of the round that it ends."""
    moments = {bar.round: bar.start_s / unit_s for bar in found if bar.phase in {AGGREGATED, BROADCAST}}
    room = (0.06 if style.asked().look.narrow else 0.022) * (
        max(moments.values(), default=0.0) - min(bar.start_s for bar in found) / unit_s
    )
    labelled = -room
    for number, moment in moments.items():
        axes.axvline(moment, color=style.SLATE, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
        if moment - labelled >= room:
            labelled = moment
            axes.annotate(
                str(number), (moment, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(0, 3),
                textcoords="offset points", ha="center", color=style.MUTED, fontsize=style.points(7.5),
            )  # fmt: skip
    axes.annotate(
        "round", (0.0, 1.0), xycoords="axes fraction", xytext=(-6, 3), textcoords="offset points", ha="right",
        color=style.MUTED, fontsize=style.points(7.5),
    )  # fmt: skip


def _legend(figure: "Figure", phases: set[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [
        Patch(**_look(name), linewidth=0.4, label=text) for name, (_, text) in _LOOKS.items() if name in phases
    ]
    handles += [
        Line2D([], [], marker=marker, color=colour, linestyle="", markeredgewidth=2, label=text)
        for name, (marker, colour, text) in _LOST.items()
        if name in phases
    ]
    if AGGREGATED in phases:
        handles.append(Line2D([], [], marker="o", color=style.INK, linestyle="", label="update aggregated"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=2 if style.asked().look.narrow else 4 if style.asked().look.printed else 7,
        frameon=False,
        fontsize=style.points(7.2),
        handlelength=1.4,
        columnspacing=1.3,
    )
