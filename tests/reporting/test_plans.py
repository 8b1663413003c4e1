import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from hpfl.planning.problem import Plan, RoundProblem
from hpfl.reporting.plans import MOST_ROWS, print_plan, quantity


def planned(K):
    """A made-up plan: edge k uploads unless k = 1, with 1 kHz for its one UE and 3 kHz to the cloud."""
    ones, on = np.ones(K), np.arange(K) != 1
    problem = RoundProblem(
        bandwidth_hz=4e3 * K,
        rho=0.5,
        phi=1.0,
        max_edges=K,
        staleness_bound=5,
        edge_gain=ones,
        edge_power_w=ones,
        edge_noise_w_per_hz=ones,
        edge_bits=ones,
        importance=ones,
        staleness=np.full(K, 5),
        edge_of_ue=np.arange(K),
        ue_gain=ones,
        ue_power_w=ones,
        ue_noise_w_per_hz=ones,
        ue_bits=ones,
        compute_s=ones,
        edge_ids=tuple(f"es-{k}" for k in range(K)),
    )
    times = np.where(on, 1.5, np.nan)
    plan = Plan(
        planner="made-up",
        scheduled=on,
        ue_bandwidth_hz=np.where(on, 1e3, 0.0),
        edge_bandwidth_hz=np.where(on, 3e3, 0.0),
        ue_power_w=ones,
        upload_s=times,
        edge_upload_s=times,
        edge_phase_s=times,
        latency_s=2 * times,
        round_latency_s=3.0,
        objective=-1.25,
        lower_bound=-1.5,
        relative_gap=0.125,
        exceeds_cap=K > 3,
    )
    return problem, plan


def printed(K, **options):
    file = io.StringIO()
    problem, plan = planned(K)
    print_plan(problem, plan, planning_s=0.004, console=Console(file=file, width=80, **options))
    return file.getvalue()


def test_the_headline_tells_set_latency_certificate_and_use():
    text = printed(3)
    assert "made-up: 2 of 3 edges upload; the round lasts 3.00 s" in text
    assert "P2 objective -1.25, no plan below -1.5 (gap 12.50%)" in text
    assert "8.00 kHz of 12.0 kHz in use, planned in 4.00 ms" in text


def test_a_plan_beyond_the_cap_says_so():
    assert "more than the 4 wanted" in printed(4)


def test_bars_show_one_part_for_the_ues_and_three_for_the_backhaul():
    assert "█" * 10 + "▒" * 30 + " 4.00 kHz 33.3%" in printed(3)


def test_an_edge_left_out_has_a_row_and_no_bar():
    rows = [line for line in printed(3).splitlines() if line.startswith("es-1")]
    assert len(rows) == 1
    assert rows[0].split()[1] == "no"


def test_a_thousand_edges_are_summed_up():
    lines = printed(1000).splitlines()
    assert f"{1000 - MOST_ROWS} more" in "\n".join(lines)
    assert len(lines) < 100


def test_long_ids_and_wide_numbers_fit_eighty_columns():
    file = io.StringIO()
    problem, plan = planned(2)
    wide = {
        "edge_ids": ("a rather long name", "b"),
        "importance": np.array([1.23e-100, 1.0]),
        "staleness": np.array([99999, 1]),
    }
    print_plan(replace(problem, **wide), plan, planning_s=1.0, console=Console(file=file, width=80))
    assert "backhaul" in file.getvalue()
    assert "3.00 kHz" in file.getvalue()
    assert max(map(len, file.getvalue().splitlines())) <= 80


def test_without_colour_there_are_no_escape_codes():
    assert "\x1b" not in printed(3, force_terminal=True, no_color=True, color_system=None)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (23_100.0, "Hz", "23.1 kHz"),
        (5e6, "Hz", "5.00 MHz"),
        (999.96, "Hz", "1.00 kHz"),
        (0.0, "Hz", "0 Hz"),
        (0.0042, "s", "4.20 ms"),
        (4.213, "s", "4.21 s"),
        (4213.0, "s", "4213 s"),
        (1e9, "s", "1e+09 s"),
        (3e12, "Hz", "3000 GHz"),
        (math.nan, "s", "-"),
    ],
)
def test_quantities_have_three_digits_and_a_prefix(value, unit, text):
    assert quantity(value, unit) == text
