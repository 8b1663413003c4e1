"""One picture of several configurations: when each reached the accuracy, and why then, as rounds times seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.compare_bars import distributions, equation
from hpfl.reporting.groups import Group
from hpfl.reporting.line_names import LineEnd, name_lines
from hpfl.reporting.runs import common_time_word
from hpfl.reporting.targets import ACCURACY, LOSS, Target
from hpfl.reporting.ways import NOTICEABLE, Ratio, Ways, metric_of, ratio, share_a_seed
from hpfl.reporting.why import factor_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {ACCURACY: "personalised accuracy, mean over UEs", LOSS: "personalised test loss, mean over UEs"}
MOST_ARROWS = 4
"""With more groups than this only the slowest is measured against the fastest."""
MOST_BANDS = 6
"""With more groups than this bands are fainter, evaluations go unmarked, and most groups have no line down."""
_LABEL_IN = 0.15
"""Height of a line's name."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Accuracy over time: of one run, or the mean over seeds with the lowest and the highest of them."""

    time_s: FloatArray
    level: FloatArray
    low: FloatArray
    high: FloatArray

    def shown_end(self, until_s: float) -> tuple[float, float] | None:
        """The last point of the line that is seen if the axis goes to `until_s`; None where nothing is drawn."""
        if not len(self.time_s) or self.time_s[0] > until_s:
            return None
        last_s = min(float(self.time_s[-1]), until_s)
        return last_s, float(np.interp(last_s, self.time_s, self.level))


def compare_figure(groups: Sequence[Group], ways: Sequence[Ways], path: Path, *, target: Target | None = None) -> Path:
    """Accuracy against time with the way to the target, and the distributions that explain it.

    One column of a paper has the first alone: `ieee-wide` has all.
    """
    top_in, bars_in = (
        max(4.1, 0.55 + _LABEL_IN * len(groups)),
        0.62 + (0.27 if len(groups) <= 12 else 0.2) * len(groups),
    )
    narrow_in = 2.5 + _LABEL_IN * -(-len(groups) // 2)
    with style.drawing(7.6, top_in + 2 * bars_in + 0.9, narrow_in=narrow_in) as figure:
        if style.asked().look.narrow:
            _courses(figure.subplots(), groups, ways, target)
            return style.save(figure, path)
        parts: Any = figure.subfigures(3, 1, height_ratios=(top_in, bars_in, bars_in + 0.25), hspace=0.03)
        top, middle, bottom = parts
        _courses(top.subplots(), groups, ways, target)
        equation(middle, groups, ways)
        distributions(bottom, groups, ways)
        _headline(figure, groups, ways, target)
        return style.save(figure, path)


def course(group: Group, metric: str = ACCURACY) -> Curve:
    """One run as it was evaluated; several at the moments at which any of them was, while all of them ran."""
    each = [view.evaluated(metric) for view in group.runs]
    if not all(len(level) for _, level in each):
        return Curve(time_s=np.empty(0), level=np.empty(0), low=np.empty(0), high=np.empty(0))
    if len(each) == 1:
        time_s, level = each[0]
        return Curve(time_s=time_s, level=level, low=level, high=level)
    moments = np.unique(np.concatenate([time_s for time_s, _ in each]))
    begin, end = max(time_s[0] for time_s, _ in each), min(time_s[-1] for time_s, _ in each)
    moments = moments[(moments >= begin) & (moments <= end)]
    values = np.stack([np.interp(moments, time_s, level) for time_s, level in each])
    return Curve(time_s=moments, level=values.mean(axis=0), low=values.min(axis=0), high=values.max(axis=0))


def _headline(figure: "Figure", groups: Sequence[Group], ways: Sequence[Ways], target: Target | None) -> None:
    word = common_time_word(group.time_word for group in groups)
    reached = sorted((each for each in ways if each.all_arrived), key=lambda each: each.order)
    title = f"{'Loss' if _metric(groups) == LOSS else 'Accuracy'} against {word}"
    if target is not None and reached and _comparable(reached):
        title = _claim(reached, _aim(target), alone=len(reached) == len(groups) == 2)
    style.headline(figure, title, _facts(groups))


def _comparable(reached: Sequence[Ways]) -> bool:
    """Whether the first two have a seed in common; whose seeds differ is not called sooner."""
    return len(reached) < 2 or share_a_seed(reached[0].group, reached[1].group)


def _claim(reached: Sequence[Ways], target: str, *, alone: bool) -> str:
    first = reached[0].group.label
    second = reached[1].group.label if len(reached) > 1 else ""
    found = ratio(reached[0], reached[1]) if second else None
    if found is not None and found.open:
        return f"{first} and {second} reach {target} at times their seeds do not tell apart"
    if found is not None and found.time.mean <= NOTICEABLE:
        return f"{first} and {second} reach {target} at the same time"
    if found is not None and alone:
        return f"{first} reaches {target} {_factor(found)} sooner than {second}"
    return f"{first} reaches {target} first"


def _aim(target: Target) -> str:
    return f"a test {target.short}" if target.is_loss else f"{target.short} accuracy"


def _metric(groups: Sequence[Group]) -> str:
    return metric_of([view for group in groups for view in group.runs])


def _factor(found: Ratio) -> str:
    """`19.7×`, and with an interval `19.8× (17.7 .. 22.2)`."""
    return factor_text(found.time, "×") if found.time.low is not None else f"{found.time.mean:.1f}×"


def _facts(groups: Sequence[Group]) -> str:
    if len(groups) <= 2:
        return "  ·  ".join(f"{group.label}: {_names(group)}{_length([group])}" for group in groups)
    return f"{len(groups)} {'groups' if _several(groups) else 'runs'} of {_length(groups)}"


def _length(groups: Sequence[Group]) -> str:
    """`40 rounds`, `5 seeds, 40 to 60 rounds`."""
    rounds = _range([len(view.rows) for group in groups for view in group.runs])
    seeds = _range([len(group.runs) for group in groups])
    return f"{seeds} seeds, {rounds} rounds" if _several(groups) else f"{rounds} rounds"


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def _names(group: Group) -> str:
    system = None if group.system == group.label else group.system
    return "".join(f"{name}, " for name in (system, group.planner and f"planner {group.planner}") if name)


def _several(groups: Sequence[Group]) -> bool:
    return any(len(group.runs) > 1 for group in groups)


def _courses(axes: "Axes", groups: Sequence[Group], ways: Sequence[Ways], target: Target | None) -> None:
    shown_s = _shown_s(groups, ways)
    unit_s, unit = style.time_unit(shown_s)
    word, metric = common_time_word(group.time_word for group in groups), _metric(groups)
    axes.set(xlabel=f"{word} ({unit})", ylabel=_AXES[metric])
    axes.set_xlim(0, shown_s / unit_s or 1.0)
    courses = [course(group, metric) for group in groups]
    seen = np.concatenate([ends for each in courses for ends in (each.low, each.high)])
    if not len(seen):
        axes.text(0.5, 0.5, "no run has evaluated an accuracy or a test loss", ha="center", transform=axes.transAxes)
        return
    for index, each in enumerate(courses):
        single, faint = len(groups[index].runs) == 1, len(groups) > MOST_BANDS
        _draw_course(axes, each, index, unit_s, single=single, faint=faint)
    if metric == ACCURACY:
        style.percent_axis(axes, float(seen.min()), float(seen.max()))
    if target is not None:
        _mark_target(axes, target, ways, unit_s)
    _name_lines(axes, groups, courses, unit_s)
    if _several(groups) and not style.asked().look.printed:
        _say_what_bands_are(axes)


def _say_what_bands_are(axes: "Axes") -> None:
    what = "line: mean over seeds; band and bar: from the lowest to the highest seed; black, below: 95 % interval"
    axes.annotate(
        what, (1.0, 1.0), xycoords="axes fraction", xytext=(0, 2), textcoords="offset points",
        ha="right", va="bottom", color=style.MUTED, fontsize=7,
    )  # fmt: skip


def _draw_course(axes: "Axes", of: Curve, index: int, unit_s: float, *, single: bool, faint: bool) -> None:
    look = style.series(index)
    if single and not faint and not style.asked().look.printed:
        look |= {"marker": "o", "markersize": 2.4}
    axes.plot(of.time_s / unit_s, of.level, **look)
    if not single:
        strength = 0.08 if faint else 0.18
        axes.fill_between(of.time_s / unit_s, of.low, of.high, color=style.colour(index), alpha=strength, linewidth=0)


def _shown_s(groups: Sequence[Group], ways: Sequence[Ways]) -> float:
    """How far the time axis goes: to the end, but a long tail after everybody has arrived is cut."""
    longest_s = max(float(view.rows[-1]["time_s"]) for group in groups for view in group.runs)
    arrived_s = [way.time_s for each in ways for way in each.arrived]
    everybody = bool(ways) and all(each.all_arrived for each in ways)
    if not everybody or 1.5 * max(arrived_s) > 0.8 * longest_s:
        return longest_s
    return 1.5 * max(arrived_s)


def _name_lines(axes: "Axes", groups: Sequence[Group], courses: Sequence[Curve], unit_s: float) -> None:
    """Each line's name, with the value that it has where it is last seen."""
    shown = formats.share if _metric(groups) == ACCURACY else formats.number
    until_s, ends = axes.get_xlim()[1] * unit_s, []
    for index, (group, each) in enumerate(zip(groups, courses, strict=True)):
        if (end := each.shown_end(until_s)) is not None:
            text = group.label if style.asked().look.narrow else f"{group.label} {shown(end[1])}"
            ends.append(LineEnd(x=end[0] / unit_s, y=end[1], text=text, look=style.series(index)))
    if not style.asked().look.narrow:
        axes.annotate(
            "last drawn", (1.0, 1.0), xycoords="axes fraction", xytext=(9, 2), textcoords="offset points",
            color=style.MUTED,
        )  # fmt: skip
    name_lines(axes, ends, gap=min(0.06, 1 / max(len(ends), 1)))


def _mark_target(axes: "Axes", target: Target, ways: Sequence[Ways], unit_s: float) -> None:
    """The target as a line; where a group reached it a line drops, and arrows say how much sooner the first was."""
    axes.axhline(target.value, color=style.MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.annotate(
        f"target {target.short}", (0.995, target.value), xycoords=axes.get_yaxis_transform(), xytext=(0, -3),
        textcoords="offset points", color=style.MUTED, ha="right", va="top",
    )  # fmt: skip
    bottom, top = axes.get_ylim()
    reached = sorted((each for each in ways if each.all_arrived), key=lambda each: each.order)
    for index, each in enumerate(ways):
        if each.all_arrived:
            down = len(reached) <= MOST_BANDS or each is reached[0] or each is reached[-1]
            _mark_arrival(axes, each, index, unit_s, down=down)
    most = 1 if style.asked().look.narrow else MOST_ARROWS
    others = reached[1:] if len(reached) <= most + 1 else reached[-1:]
    for step, other in enumerate(others):
        height = bottom + (0.09 + 0.085 * (len(others) - 1 - step)) * (top - bottom)
        ends = (reached[0].order[1] / unit_s, other.order[1] / unit_s)
        _gap_arrow(axes, ends, height, ratio(reached[0], other))


def _mark_arrival(axes: "Axes", of: Ways, index: int, unit_s: float, *, down: bool) -> None:
    """A dot at the mean time, on a bar from the first seed's to the last one's, and maybe a line down from it."""
    shade, times = style.colour(index), [way.time_s / unit_s for way in of.arrived]
    place, height = of.order[1] / unit_s, of.mean(lambda way: way.level)
    if down:
        axes.vlines(place, axes.get_ylim()[0], height, color=shade, linewidth=1, alpha=0.8)
    if len(times) > 1:
        axes.hlines(height, min(times), max(times), color=shade, linewidth=2.2)
    axes.plot([place], [height], "o", color=shade, markersize=6.5, zorder=5)


def _gap_arrow(axes: "Axes", ends: tuple[float, float], height: float, found: Ratio | None) -> None:
    if found is None or found.open or found.time.mean < NOTICEABLE:
        return
    arrow = {"arrowstyle": "<->", "color": style.INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (ends[0], height), xytext=(ends[1], height), arrowprops=arrow)
    wide = (ends[1] - ends[0]) > 0.16 * axes.get_xlim()[1]
    place: dict[str, Any] = (
        {"ha": "center", "va": "bottom", "xytext": (0, 3)} if wide else {"va": "center", "xytext": (6, 0)}
    )
    axes.annotate(
        f"{_factor(found)} sooner",
        (sum(ends) / 2 if wide else ends[1], height),
        textcoords="offset points",
        fontweight="bold",
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.9, "pad": 0.8},
        **place,
    )
