"""The panels that show what each UE got in the end."""

from typing import TYPE_CHECKING

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ranks(axes: "Axes", personal: FloatArray, common: FloatArray) -> None:
    """Accuracies of all UEs, from the worst to the best, personalised and global."""
    entries, lows = [], [1.0]
    for values, text, shade in ((personal, "personalised", style.BLUE), (common, "global", style.VERMILLION)):
        ranked = np.sort(values[np.isfinite(values)])
        if not len(ranked):
            continue
        places = (np.arange(len(ranked)) + 0.5) / len(ranked)
        axes.step(places, ranked, where="mid", color=shade)
        entries.append((float(ranked[-1]), text, shade))
        lows.append(float(ranked[0]))
        mean = float(ranked.mean())
        axes.axhline(mean, color=shade, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.annotate(
            f"mean {formats.share(mean)}", (0.015, mean), xytext=(0, 2), textcoords="offset points", color=shade
        )
    axes.axvspan(0, 0.1, color=style.FAINT, alpha=0.7, linewidth=0)
    style.percent_axis(axes, min(lows), 1.0)
    axes.set_xlim(0, 1)
    axes.text(0.115, 0.03, "worst decile", color=style.MUTED, transform=axes.transAxes)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set(xlabel="UEs, from worst to best", ylabel="final accuracy on its own test samples")
    style.end_labels(axes, entries, gap=0.07)


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
