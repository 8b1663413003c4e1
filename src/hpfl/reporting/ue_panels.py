"""The panels that show what each UE got in the end."""

from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.line_names import LineEnd, name_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ranks(axes: "Axes", personal: FloatArray, common: FloatArray) -> None:
    """Accuracies of all UEs, from the worst to the best, personalised and global."""
    ends, lows = [], [1.0]
    axes.set_xlim(0, 1)
    for values, text, shade, dash in (
        (personal, "personalised", style.BLUE, "-"),
        (common, "global", style.VERMILLION, style.DASHES[1]),
    ):
        ranked = np.sort(values[np.isfinite(values)])
        if not len(ranked):
            continue
        look: dict[str, Any] = {"color": shade, "linestyle": dash}
        places = (np.arange(len(ranked)) + 0.5) / len(ranked)
        axes.step(places, ranked, where="mid", **look)
        mean = float(ranked.mean())
        ends.append(
            LineEnd(
                x=float(places[-1]),
                y=float(ranked[-1]),
                text=f"{text}{_between()}mean {formats.share(mean)}",
                look=look,
            )
        )
        lows.append(float(ranked[0]))
        axes.axhline(mean, color=shade, linewidth=0.8, linestyle=style.DASHES[2])
    axes.axvspan(0, 0.1, color=style.FAINT, alpha=0.7, linewidth=0)
    style.percent_axis(axes, min(lows), 1.0)
    axes.text(0.115, 0.03, "worst decile", color=style.MUTED, transform=axes.transAxes)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set(xlabel="UEs, from worst to best", ylabel="final accuracy on its own test samples")
    name_lines(axes, ends, gap=0.13)


def _between() -> str:
    """Beside the axes there is little room, above them little height."""
    return ", " if style.asked().look.narrow else "\n"


def draw_gain(axes: "Axes", personal: FloatArray, common: FloatArray) -> None:
    """What personalisation was worth: each UE's personalised accuracy against its global one."""
    from matplotlib.ticker import PercentFormatter

    axes.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8)
    places, counts = np.unique(np.stack([common, personal]), axis=1, return_counts=True)
    sizes = 12 + 250 * counts / max(1, len(personal))
    axes.scatter(places[0], places[1], s=sizes, color=style.BLUE, alpha=0.55, linewidths=0, clip_on=False)
    better = float(np.mean(personal > common)) if len(personal) else 0.0
    axes.text(
        0.97,
        0.05,
        f"{formats.share(better)} of UEs better off\nwith personalisation",
        ha="right",
        transform=axes.transAxes,
    )
    axes.set(xlabel="global accuracy", ylabel="personalised accuracy", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
