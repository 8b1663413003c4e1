"""The picture of `hpfl theory`: loss change against its bounds, the constants along the run, the two lemmas."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting.line_names import LineEnd, name_lines
from hpfl.reporting.style import (
    BLUE,
    DASHES,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    VERMILLION,
    asked,
    drawing,
    headline,
    save_all,
    whole_marks,
)
from hpfl.studies.curves import plain_log
from hpfl.studies.theory import Findings
from hpfl.studies.theory_report import bound_columns, lemmas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOUNDS = {
    "printed": ("Theorem 1\nas printed", VERMILLION, 1),
    "corrected": ("corrected,\nlemmas' $L_F$, $\\gamma_F$", PURPLE, 3),
    "corrected_measured": ("corrected,\nmeasured $L_F$, $\\gamma_F$", GREEN, 2),
    "smoothness": ("Lemma 1\nalone", BLUE, 0),
}
_CONSTANTS = {
    "hessian_lipschitz": ("Hessian-Lipschitz,\nn = 3", ORANGE, "s"),
    "smoothness": ("$L$, n = 2", BLUE, "o"),
    "gradient_bound": ("$C$, n = 1", VERMILLION, "^"),
    "hessian_diversity": ("$\\gamma_H$, n = 2", PURPLE, "D"),
    "gradient_diversity": ("$\\gamma_G$, n = 1", GREEN, "v"),
}


def draw(findings: Findings, folder: Path) -> list[Path]:
    """`theory.png` and `theory.svg` in `folder`, or the kinds asked for."""
    with drawing(9.2, 7.6, narrow_in=8.6) as figure:
        facts = f"{findings.rounds} rounds played again; constants are the largest seen, lower bounds of the true ones"
        headline(
            figure, f"Run {findings.recorded.folder.resolve().name}: the paper's bound against what the loss did", facts
        )
        above, left, right = _places(figure)
        _changes(above, findings)
        _constants(left, findings)
        _lemmas(right, findings)
        return save_all(figure, folder / "theory", "png", "svg")


def _places(figure: "Figure") -> "Sequence[Axes]":
    """The bounds above, constants and lemmas below them; one under the other in one column of a paper."""
    if asked().look.narrow:
        return list(figure.subplots(3, 1))
    grid = figure.add_gridspec(2, 2, height_ratios=(1.25, 1))
    return [figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1])]


def _changes(axes: "Axes", findings: Findings) -> None:
    """Loss change and bounds, on a scale that is linear around 0 and logarithmic beyond."""
    rounds, change = np.arange(1, findings.rounds + 1), findings.course.change
    linear = 10.0 ** np.floor(np.log10(max(float(np.median(np.abs(change))), 1e-9)))
    axes.set_yscale("symlog", linthresh=linear, linscale=0.8)
    ends: list[LineEnd] = []
    for name, values in bound_columns(findings).items():
        text, shade, dash = _BOUNDS[name]
        ends.append(_drawn(axes, rounds, values, text, color=shade, linestyle=DASHES[dash]))
    ends.append(_drawn(axes, rounds, change, "measured", color=INK, linewidth=2.2))
    axes.axhline(0, color=MUTED, linewidth=0.8)
    title = "Change of the personalised loss in a round, and what bounds it from above"
    axes.set_title("Loss change in a round, and its bounds" if asked().look.narrow else title)
    axes.set_ylabel(f"$F(w_{{t+1}}) - F(w_t)$, {_loss_unit(findings)}")
    _sparse_ticks(axes, linear)
    _round_axis(axes, findings.rounds, first=1)
    name_lines(axes, ends, gap=0.1)


def _sparse_ticks(axes: "Axes", linear: float) -> None:
    """Powers of ten a few apart, 0, and the linear part's ends."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = axes.get_ylim()
    lowest = round(np.log10(linear))
    step = max(1, int(np.ceil((np.log10(max(high, 10 * linear)) - lowest) / 7)))
    powers = [10.0**power for power in range(lowest, 40, step)]
    places = [0.0, *(sign * power for power in powers for sign in (1, -1))]
    axes.yaxis.set_major_locator(FixedLocator([place for place in places if low <= place <= high]))
    axes.yaxis.set_minor_locator(NullLocator())


def _constants(axes: "Axes", findings: Findings) -> None:
    rounds = [estimate.round for estimate in findings.estimates]
    ends: list[LineEnd] = []
    for name, (text, shade, marker) in _CONSTANTS.items():
        values = [getattr(estimate.constants, name) for estimate in findings.estimates]
        ends.append(_drawn(axes, rounds, values, text, color=shade, marker=marker, markersize=4))
    _log_heights(axes)
    axes.set_title("Constants of Assumptions 2 to 4, from below")
    axes.set_ylabel(f"{_loss_unit(findings)} per (unit of $w$)$^n$")
    _round_axis(axes, findings.rounds)
    name_lines(axes, ends, gap=0.1)


def _lemmas(axes: "Axes", findings: Findings) -> None:
    """`L_F` and `gamma_F`: what the lemmas make of the constants, and what was measured."""
    of, rounds = lemmas(findings), findings.rounds
    ends: list[LineEnd] = []
    for text, value, shade in (
        ("$L_F$ of Lemma 1, n = 2", of["printed_L_F"], BLUE),
        ("$\\gamma_F$ of Lemma 2, n = 1", of["printed_gamma_F"], ORANGE),
        ("$1/\\beta$, n = 2", 1 / findings.recorded.config.learning.outer_lr, MUTED),
    ):
        ends.append(_drawn(axes, [0, rounds], [value, value], text, color=shade, linestyle=DASHES[1]))
    for text, x, values, shade in (
        ("$L_F$ measured, n = 2", np.arange(1, rounds + 1), findings.meta_secant, BLUE),
        ("$\\gamma_F$ measured, n = 1", np.arange(rounds + 1), np.sqrt(findings.deviation_sq), ORANGE),
    ):
        ends.append(_drawn(axes, x, _positive(values), text, color=shade))
    _log_heights(axes)
    axes.set_title("Lemmas 1 and 2 against what they bound")
    axes.set_ylabel(f"{_loss_unit(findings)} per (unit of $w$)$^n$")
    _round_axis(axes, rounds)
    name_lines(axes, ends, gap=0.1)


def _loss_unit(findings: Findings) -> str:
    return "nats" if findings.recorded.config.learning.loss == "cross-entropy" else "units of loss"


def _log_heights(axes: "Axes") -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    plain_log(axes.yaxis, wide=high >= 300 * low)


def _positive(values: FloatArray) -> FloatArray:
    return np.where(values > 0, values, np.nan)


def _round_axis(axes: "Axes", rounds: int, *, first: int = 0) -> None:
    axes.set_xlim(first, max(rounds, first + 1))
    whole_marks(axes.xaxis, 8)
    axes.set_xlabel("round", color=INK)


def _drawn(axes: "Axes", x: Any, values: Any, text: str, **look: Any) -> LineEnd:
    """Draw a line; gives its end and its name, which is one line in a legend."""
    axes.plot(x, values, **look)
    name = text.replace("\n", " ") if asked().look.narrow else text
    return LineEnd(x=float(x[-1]), y=float(values[-1]), text=name, look=look)
