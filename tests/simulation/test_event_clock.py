"""Instants worked out by hand: two edges, given seconds, bits and rates."""

from dataclasses import replace

import numpy as np
import pytest
from simulation_worlds import BITS, by_hand, make_world, memory_of

from hpfl.simulation.event import EventClock
from hpfl.simulation.round import RoundClock
from hpfl.training.clock import ClockSettings, Work
from hpfl.training.loop import play_round

# edge 0: UE 0 computes 2 s and sends 4 bits at 2 bit/s (there at 4 s), UE 1 1 s and 8 bits at 2 bit/s (5 s);
#         8 bits at 4 bit/s to the cloud: there at 7 s
# edge 1: UE 2 computes 3 s and sends 10 bits at 5 bit/s (5 s); 8 bits at 2 bit/s to the cloud: there at 9 s
TWO = {
    "edge_of": [0, 0, 1],
    "compute_s": [2, 1, 3],
    "ue_bits": [4, 8, 10],
    "ue_rate": [2, 2, 5],
    "edge_bits": [8, 8],
    "edge_rate": [4, 2],
}


def advance(interval, **settings):
    clock = EventClock(ClockSettings(**settings))
    return clock.advance(memory_of(interval), interval)


def test_both_edges_called_end_when_the_slower_arrives():
    progress = advance(by_hand(**TWO))
    assert progress.latency_s == 9.0
    assert progress.arrived.tolist() == [True, True]
    assert progress.marks.computed_s.tolist() == [1.0, 3.0]
    assert progress.marks.delivered_s.tolist() == [5.0, 5.0]
    assert progress.marks.settled_s.tolist() == [7.0, 9.0]
    assert progress.uplink_bits == 38.0
    assert progress.compute_s.tolist() == [2.0, 1.0, 3.0]
    assert progress.transmit_j.tolist() == [2.0, 4.0, 2.0]


def test_an_edge_that_was_not_called_has_computed_meanwhile_and_sent_nothing():
    progress = advance(by_hand(**TWO, scheduled=[True, False]))
    assert progress.latency_s == 7.0
    assert progress.arrived.tolist() == [True, False]
    assert progress.memory["compute_s"].tolist() == [0.0, 0.0, 0.0]
    assert progress.memory["ue_bits"].tolist() == [0.0, 0.0, 10.0]
    assert progress.memory["edge_bits"].tolist() == [0.0, 8.0]
    assert progress.compute_s.tolist() == [2.0, 1.0, 3.0]
    assert progress.transmit_j.tolist() == [2.0, 4.0, 0.0]


def test_computing_that_an_aggregation_interrupts_goes_on_afterwards():
    progress = advance(by_hand(**(TWO | {"compute_s": [2, 1, 100]}), scheduled=[True, False]))
    assert progress.memory["compute_s"].tolist() == [0.0, 0.0, 93.0]
    assert progress.compute_s.tolist() == [2.0, 1.0, 7.0]


def test_the_first_arrival_leaves_the_other_in_flight_with_what_it_has_sent():
    progress = advance(by_hand(**TWO), trigger="first", max_edges=1)
    assert progress.latency_s == 7.0
    assert progress.arrived.tolist() == [True, False]
    assert progress.memory["ue_bits"].tolist() == [0.0, 0.0, 0.0]
    assert progress.memory["edge_bits"].tolist() == [0.0, 4.0]  # two seconds of backhaul at 2 bit/s
    assert progress.uplink_bits == 34.0
    later = by_hand(**(TWO | {"compute_s": [2, 1, 0], "ue_bits": [4, 8, 0], "edge_bits": [8, 4]}))
    again = advance(later, trigger="first", max_edges=1)
    assert (again.latency_s, again.arrived.tolist()) == (2.0, [False, True])
    assert again.memory["compute_s"].tolist() == [0.0, 0.0, 0.0]
    assert again.memory["ue_bits"].tolist() == [4.0, 6.0, 0.0]  # UE 1 has sent for a second, UE 0 only just begins


def test_an_upload_interrupted_between_its_bits_goes_on_with_the_rest():
    interval = by_hand(**(TWO | {"ue_bits": [4, 80, 10]}))
    progress = advance(interval, trigger="first", max_edges=1)
    assert (progress.latency_s, progress.arrived.tolist()) == (9.0, [False, True])
    assert progress.memory["ue_bits"].tolist() == [0.0, 80.0 - 2.0 * 8.0, 0.0]
    assert progress.memory["edge_bits"].tolist() == [8.0, 0.0]


def test_the_cloud_waits_for_an_edge_at_the_bound_and_takes_whoever_came_before():
    progress = advance(by_hand(**TWO, must=[False, True]), trigger="first", max_edges=1)
    assert (progress.latency_s, progress.arrived.tolist()) == (9.0, [True, True])


def test_edges_of_the_same_moment_are_taken_in_order_of_their_numbers():
    same = {name: [value[2]] * 3 for name, value in TWO.items() if name.startswith(("ue", "compute"))}
    interval = by_hand(edge_of=[0, 1, 2], **same, edge_bits=[8, 8, 8], edge_rate=[2, 2, 2])
    progress = advance(interval, trigger="first", max_edges=2)
    assert progress.arrived.tolist() == [True, True, False]
    assert progress.memory["edge_bits"].tolist() == [0.0, 0.0, 0.0]
    rest = by_hand(edge_of=[0, 1, 2], **(same | {"ue_bits": [10, 10, 0]}), edge_bits=[8, 8, 0], edge_rate=[2, 2, 2])
    assert advance(rest, trigger="first", max_edges=1).latency_s == 0.0


def test_all_there_are_suffice_when_they_are_fewer_than_wanted():
    progress = advance(by_hand(**TWO), trigger="first", max_edges=5)
    assert (progress.latency_s, progress.arrived.tolist()) == (9.0, [True, True])


def test_an_edge_goes_on_without_its_stragglers_at_the_deadline():
    progress = advance(by_hand(**TWO), deadline_s=4.5)
    assert progress.lost.tolist() == [False, True, False]  # UE 1 would need 5 s; UE 2 is its edge's only one
    assert progress.marks.delivered_s.tolist() == [4.5, pytest.approx(5.0)]
    assert progress.marks.settled_s[0] == 6.5
    assert progress.transmit_j.tolist() == [2.0, 3.5, 2.0]
    assert progress.arrived.tolist() == [True, True]


def test_the_round_clock_cuts_stragglers_alike():
    progress = RoundClock(ClockSettings(deadline_s=4.5)).advance({}, by_hand(**TWO))
    assert progress.lost.tolist() == [False, True, False]
    assert progress.marks.settled_s[0] == 6.5


def test_a_spoilt_ue_upload_costs_its_time_and_is_left_out():
    progress = advance(by_hand(**TWO, ue_fails=[False, True, False]))
    assert progress.lost.tolist() == [False, True, False]
    assert progress.latency_s == 9.0
    assert progress.arrived.tolist() == [True, True]


def test_an_edge_whose_uploads_are_all_spoilt_drops_its_update_at_once():
    progress = advance(by_hand(**TWO, ue_fails=[False, False, True]))
    assert progress.dropped.tolist() == [False, True]
    assert progress.arrived.tolist() == [True, False]
    assert progress.latency_s == 7.0
    assert progress.marks.settled_s.tolist() == [7.0, 5.0]


def test_a_spoilt_backhaul_is_sent_again_in_full():
    progress = advance(by_hand(**TWO, edge_fails=[False, True]))
    assert progress.arrived.tolist() == [True, False]
    assert progress.dropped.tolist() == [False, False]
    assert progress.memory["edge_bits"].tolist() == [0.0, 8.0]
    assert progress.memory["ue_bits"].tolist() == [0.0, 0.0, 0.0]


def test_an_edge_at_the_bound_gives_up_a_spoilt_update():
    progress = advance(by_hand(**TWO, edge_fails=[False, True], must=[False, True]))
    assert progress.dropped.tolist() == [False, True]


def test_a_change_of_the_channel_between_plans_moves_the_arrivals():
    """Rates halve after four seconds: edge 1's UE has 5 of 10 bits left there, and its backhaul takes twice as long."""

    def gains(block):
        return (np.array([2.0, 2.0, 5.0]), np.array([4.0, 2.0])) if block == 0 else (half_ue, half_edge)

    half_ue, half_edge = (_snr_for(rate / 2, rate) for rate in (np.array([2.0, 2.0, 5.0]), np.array([4.0, 2.0])))
    progress = advance(replace(by_hand(**TWO), gains=gains), coherence_s=4.0)
    assert progress.marks.delivered_s == pytest.approx([6.0, 6.0])
    assert progress.marks.settled_s == pytest.approx([10.0, 14.0])
    assert progress.uplink_bits == pytest.approx(38.0)


def _snr_for(rate, bandwidth):
    """The `s` with which `bandwidth` carries `rate` bit/s."""
    return bandwidth * (2.0 ** (rate / bandwidth) - 1.0)


def test_work_carries_over_and_starts_anew_only_where_told():
    clock = EventClock(ClockSettings())
    whole = Work(compute_s=np.array([1.0, 2.0]), ue_bits=np.array([5.0, 6.0]), edge_bits=np.array([7.0, 8.0]))
    first, memory = clock.remaining({}, whole, members=np.arange(2), edges=np.array([True, True]))
    assert vars(first).keys() == vars(whole).keys()
    memory = memory | {"ue_bits": np.array([0.0, 3.0]), "edge_bits": np.array([2.0, 8.0])}
    left, _ = clock.remaining(memory, whole, members=np.array([1]), edges=np.array([False, True]))
    assert left.ue_bits.tolist() == [0.0, 6.0]
    assert left.edge_bits.tolist() == [2.0, 8.0]
    assert clock.delivered(memory, 2).tolist() == [True, False]


@pytest.mark.parametrize("broadcast", ["scheduled", "all"])
def test_event_equals_round_when_every_edge_is_scheduled_every_round(broadcast):
    worlds = [make_world(clock=clock, planner="full", broadcast=broadcast) for clock in ("round", "event")]
    states = [world.state for world in worlds]
    for _ in range(6):
        played = [play_round(state, w.parts, w.settings) for state, w in zip(states, worlds, strict=True)]
        states = [state for state, _ in played]
        (one, other) = (record for _, record in played)
        assert one == other
        assert one.phases.rows() == other.phases.rows()
    assert np.array_equal(states[0].joules, states[1].joules)


def test_an_edge_that_waited_is_no_slower_than_one_that_starts_from_zero():
    worlds = [make_world(clock=clock, planner="scripted", script=[[0, 1], [2, 3]]) for clock in ("round", "event")]
    states = [world.state for world in worlds]
    latencies = []
    for _ in range(4):
        played = [play_round(state, w.parts, w.settings) for state, w in zip(states, worlds, strict=True)]
        states = [state for state, _ in played]
        latencies.append([record.latency_s for _, record in played])
    assert latencies[0][0] == latencies[0][1]
    assert all(carried < fresh for fresh, carried in latencies[1:])


def test_a_broadcast_to_all_supersedes_what_is_in_flight_and_everybody_starts_anew():
    world = make_world(planner="scripted", script=[[0], [1]], broadcast="all")
    state, first = play_round(world.state, world.parts, world.settings)
    assert first.superseded == (1, 2, 3)
    assert state.awaiting.all()
    state, second = play_round(state, world.parts, world.settings)
    assert (second.aggregated, second.staleness, second.superseded) == ((1,), (0,), (0, 2, 3))
    assert [base for base, edge, _ in world.executor.learners.asked if edge == 2] == [0, 1]


def test_what_was_sent_before_an_update_was_superseded_is_sent_again():
    world = make_world(trigger="first", max_edges=1, planner="shpfl", broadcast="all")
    state, record = play_round(world.state, world.parts, world.settings)
    assert (state.clock["ue_bits"] < BITS).any()
    observed = world.executor.observe(state)
    assert (observed.links.ue_bits == BITS).all()
    assert (observed.links.edge_bits == BITS).all()
    assert len(record.superseded) == 3
