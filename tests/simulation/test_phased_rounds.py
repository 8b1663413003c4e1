"""Rounds whose band is shared anew in each phase: what is planned is played, and backhauls wait for their switch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from simulation_worlds import by_hand, make_world, memory_of

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.network.distributions import Choice
from hpfl.simulation.event import EventClock
from hpfl.simulation.round import RoundClock
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.clock import ClockSettings
from hpfl.training.loop import play_round

# edge 0: UE 0 computes 2 s and sends 4 bits at 2 bit/s (there at 4 s); 8 bits at 4 bit/s to the cloud: 2 s
# edge 1: UE 1 computes 3 s and sends 10 bits at 5 bit/s (5 s); 8 bits at 2 bit/s to the cloud: 4 s
TWO = {
    "edge_of": [0, 1],
    "compute_s": [2, 3],
    "ue_bits": [4, 10],
    "ue_rate": [2, 5],
    "edge_bits": [8, 8],
    "edge_rate": [4, 2],
}
ONE_SWITCH = {**TWO, "switch_s": [5, 5]}


def advance(interval, clock=EventClock, **settings):
    return clock(ClockSettings(**settings)).advance(memory_of(interval), interval)


@pytest.mark.parametrize("clock", [RoundClock, EventClock])
def test_no_backhaul_begins_before_all_ues_have_delivered(clock):
    progress = advance(by_hand(**ONE_SWITCH), clock)
    assert progress.marks.delivered_s.tolist() == [4.0, 5.0]
    assert progress.marks.sending_s.tolist() == [5.0, 5.0]
    assert progress.marks.settled_s.tolist() == [7.0, 9.0]
    assert progress.latency_s == 9.0


def test_edges_left_out_hold_nobody_up():
    progress = advance(by_hand(**ONE_SWITCH, scheduled=[True, False]))
    assert progress.marks.sending_s[0] == 4.0
    assert progress.latency_s == 6.0


def test_edges_with_switches_of_their_own_go_ahead():
    progress = advance(by_hand(**TWO, switch_s=[4, 5]))
    assert progress.marks.settled_s.tolist() == [6.0, 9.0]
    later = advance(by_hand(**TWO, switch_s=[4.5, 5]))
    assert later.marks.settled_s.tolist() == [6.5, 9.0]


def test_an_edge_waits_for_those_that_were_to_switch_before_it():
    progress = advance(by_hand(**(TWO | {"ue_bits": [40, 10]}), switch_s=[4, 5]))
    assert progress.marks.sending_s.tolist() == [22.0, 22.0]


def test_where_gains_change_the_switch_comes_when_the_last_phase_is_over():
    """Rates of both UEs halve after four seconds: UE 1 has 5 bits left there and is through at six."""
    half = {"ue": np.array([2.0, 5.0]) * (2.0**0.5 - 1.0), "edge": np.array([4.0, 2.0])}

    def gains(block):
        return (np.array([2.0, 5.0]), half["edge"]) if block == 0 else (half["ue"], half["edge"])

    progress = advance(replace(by_hand(**ONE_SWITCH), gains=gains), coherence_s=4.0)
    assert progress.marks.sending_s == pytest.approx([6.0, 6.0])
    assert progress.latency_s == pytest.approx(10.0)


def test_stragglers_cut_off_bring_the_switch_forward():
    progress = advance(
        by_hand(**(ONE_SWITCH | {"edge_of": [0, 0], "edge_bits": [8], "edge_rate": [4]}) | {"switch_s": [5]}),
        deadline_s=4.5,
    )
    assert progress.marks.sending_s.tolist() == [4.5]
    assert progress.latency_s == 6.5


def test_the_first_arrival_leaves_the_other_in_flight():
    progress = advance(by_hand(**ONE_SWITCH), trigger="first", max_edges=1)
    assert (progress.latency_s, progress.arrived.tolist()) == (7.0, [True, False])
    assert progress.memory["edge_bits"].tolist() == [0.0, 4.0]


def test_an_edge_that_has_heard_all_its_ues_still_waits_for_the_others():
    rest = by_hand(**(ONE_SWITCH | {"compute_s": [0, 3], "ue_bits": [0, 10]}))
    assert advance(rest).marks.sending_s.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("clock", ["round", "event"])
@pytest.mark.parametrize("planner", ["full", "random", "joint", "paper", "paper+p4", "shpfl"])
def test_what_is_planned_is_played(planner, clock):
    """One switch, and two where one of the edges computes much longer."""
    for cpu_hz in (None, Choice((2e7, 2e9), (0.1, 0.9))):
        world = make_world(planner=planner, clock=clock, spectrum="phased", max_edges=4, cpu_hz=cpu_hz, edges=5)
        state, planned = world.state, []
        inner = world.parts.planner

        def noting(problem, memory, stream, inner=inner, planned=planned):
            made, memory = inner(problem, memory, stream)
            planned.append(made)
            return made, memory

        world.parts.__dict__["planner"] = noting
        for _ in range(3):
            state, record = play_round(state, world.parts, world.settings)
            assert record.latency_s == pytest.approx(planned[-1].round_latency_s, rel=1e-9)
            assert record.bandwidth_used_hz <= world.settings.bandwidth_hz * (1 + 1e-9)


def test_the_timeline_has_no_gaps_and_shows_the_wait_for_the_switch():
    world = make_world(planner="full", spectrum="phased")
    _, record = play_round(world.state, world.parts, world.settings)
    rows = [row for row in record.phases.rows() if row["edge"] == 0 and row["start_s"] < row["end_s"]]
    assert [one["end_s"] for one in rows[:-1]] == pytest.approx([two["start_s"] for two in rows[1:]])
    assert rows[-1]["phase"] in {"backhaul", "waiting"}


def test_sketches_use_the_spectrum_of_the_run():
    given = ["network.edges=4", "network.ues_per_edge=3", "planning.importance=sketch", "planning.planner=random"]
    spent_s = []
    for spectrum in ("fixed", "phased"):
        config = hpfl.load("quickstart-paper", overrides=[*given, f"network.spectrum={spectrum}"])
        data = load_dataset("mnist-mini", None)
        made = build_simulation(config, data, device=torch.device("cpu"), stopwatch=float)
        spent_s.append(made.parts.executor.observe(made.start).spent_s)
    assert 0 < spent_s[1] < spent_s[0]
