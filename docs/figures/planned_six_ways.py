"""Draws one network planned six ways: `python docs/figures/planned_six_ways.py` writes round.json and the picture."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpfl.network import PathLoss, rayleigh
from hpfl.planning import Plan, RoundProblem, plan
from hpfl.reporting.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    drawing,
    headline,
    save,
)
from hpfl.rng import Streams
from hpfl.units import db_to_linear

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
PLANNERS = ("joint", "alternating", "paper", "full", "random", "shpfl")
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
EDGES, UES, SEED, BOUND = 6, 4, 21, 8


def document() -> dict[str, object]:
    """Six edges of four UEs, placed and faded as in the paper's section 7.1; the last edge is at the bound."""
    streams = Streams(SEED)
    ue_distance_m = 2.0 + 48.0 * streams.at("ue distance").uniform(EDGES * UES)
    edge_distance_m = 50.0 + 150.0 * streams.at("edge distance").uniform(EDGES)
    ue_gain = _path_loss(-36.0).gain(ue_distance_m) * rayleigh(streams.at("ue fading"), EDGES * UES)
    edge_gain = _path_loss(-40.0).gain(edge_distance_m) * rayleigh(streams.at("edge fading"), EDGES)
    compute_s = 0.1 + 0.5 * streams.at("compute").uniform(EDGES * UES)
    importance = 0.2 + 1.5 * streams.at("importance").exponential(EDGES)
    ues = [
        {
            "id": f"ue-{i % UES}",
            "gain": float(f"{ue_gain[i]:.4g}"),
            "power_w": 0.01,
            "compute_s": round(compute_s[i], 3),
        }
        for i in range(EDGES * UES)
    ]
    edges = [
        {
            "id": "ABCDEF"[k],
            "gain": float(f"{edge_gain[k]:.4g}"),
            "power_w": 0.01,
            "importance": round(importance[k], 2),
            "staleness": BOUND if k == EDGES - 1 else k % 3,
            "ues": ues[k * UES : (k + 1) * UES],
        }
        for k in range(EDGES)
    ]
    settings = {"bandwidth_hz": 1e6, "noise_w_per_hz": 3.98e-21, "model_bits": 2544320}
    weights = {"rho": 0.5, "phi": 5.0, "max_edges": 4, "staleness_bound": BOUND}
    return settings | weights | {"edges": edges}


def _path_loss(gain_db: float) -> PathLoss:
    return PathLoss(gain_at_1m_linear=db_to_linear(gain_db), exponent=2.0)


def draw_plan(axes: "Axes", problem: RoundProblem, made: Plan) -> None:
    """Spectrum upwards, time to the right; each edge's UEs lie below its backhaul, grey where a band idles."""
    top_khz = 0.0
    for k in np.flatnonzero(made.scheduled).tolist():
        for i in np.flatnonzero(problem.edge_of_ue == k).tolist():
            _band(
                axes,
                (problem.compute_s[i], made.upload_s[i]),
                (top_khz, made.ue_bandwidth_hz[i] / 1e3),
                (COLOURS[k], 0.45),
            )
            top_khz += made.ue_bandwidth_hz[i] / 1e3
        height_khz = made.edge_bandwidth_hz[k] / 1e3
        _band(axes, (made.edge_phase_s[k], made.edge_upload_s[k]), (top_khz, height_khz), (COLOURS[k], 1.0))
        name = f"{problem.edge_ids[k]}{'!' if problem.must[k] else ''} {problem.importance[k]:.2f}"
        axes.text(0.08, top_khz + height_khz / 2, name, va="center_baseline", fontsize=7.5, color=INK)
        top_khz += height_khz
        axes.axhline(top_khz, color="white", linewidth=1.6)
    axes.axvspan(0.0, made.round_latency_s, color=FAINT, linewidth=0, zorder=0)
    axes.axvline(made.round_latency_s, color=INK, linewidth=1.0)


def _band(axes: "Axes", when: tuple[float, float], where: tuple[float, float], look: tuple[str, float]) -> None:
    axes.broken_barh([when], where, facecolor="white", edgecolor="none")
    axes.broken_barh([when], where, facecolor=look[0], alpha=look[1], edgecolor="white", linewidth=0.5)


def main() -> None:
    """Write the problem and the picture beside this file."""
    text = json.dumps(document(), indent=1)
    (HERE / "round.json").write_text(text + "\n")
    problem = RoundProblem.from_json(text)
    plans = [plan(problem, name) for name in PLANNERS]
    longest_s = max(made.round_latency_s for made in plans)
    with drawing(8.2, 6.2) as figure:
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        for axes, made in zip(panels.flat, plans, strict=True):
            draw_plan(axes, problem, made)
            axes.set_title(made.planner + (" (beyond the cap)" if made.exceeds_cap else ""), pad=19)
            axes.grid(visible=False)
            axes.set(xlim=(0, 1.02 * longest_s), ylim=(0, problem.bandwidth_hz / 1e3))
            say = f"{made.scheduled.sum()} edges, {made.round_latency_s:.2f} s, objective {made.objective:.2f}"
            axes.text(0, 1.03, say.replace("-", "\N{MINUS SIGN}"), transform=axes.transAxes, fontsize=8, color=INK)
        for axes in panels[1]:
            axes.set_xlabel("time (s)")
        for axes in panels[:, 0]:
            axes.set_ylabel("spectrum (kHz)")
        facts = (
            "Who sends when, over which part of 1 MHz. Pale: UEs to edge; full: edge to cloud; grey: reserved, idle.\n"
            "Letters: edges and their importance; ! is at the staleness bound and must upload. At most four are wanted."
        )
        headline(figure, "One round, planned six ways", facts)
        figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.72 / 6.2))  # two lines of facts
        save(figure, HERE / "planned-six-ways.png")


if __name__ == "__main__":
    main()
