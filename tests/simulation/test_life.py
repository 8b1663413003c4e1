"""UEs that are sampled, leave, fail, straggle and walk: who takes part, and what becomes of an edge's update."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_worlds import BITS, make_world

from hpfl.network.availability import TwoState
from hpfl.network.cutoff import cut_s
from hpfl.network.failures import struck
from hpfl.network.mobility import RandomWaypoint
from hpfl.network.sampling import Sampling, sampled
from hpfl.rng import Streams
from hpfl.simulation.roster import Life
from hpfl.simulation.virtual_executor import Mishaps
from hpfl.training.loop import play_round


def living(**parts):
    """A function that makes a `Life` with the given parts."""

    def make(fleet, streams):
        made = {name: part(fleet, streams) if name == "mobility" else part for name, part in parts.items()}
        return Life(**({"fleet": fleet, "streams": streams, "sampling": Sampling()} | made))

    return make


def away(*ues, since=0, until=10**9, count=12):
    """Availability by hand: `ues` are away in the rounds `since` to `until`."""

    def available(moment):
        number, _ = moment
        mask = np.ones(count, dtype=bool)
        mask[list(ues)] = not since <= number < until
        return mask

    return available


def play(world, rounds):
    state, records = world.state, []
    for _ in range(rounds):
        state, record = play_round(state, world.parts, world.settings)
        records.append(record)
    return state, records


def asked(world, edge):
    return [(base, ues) for base, k, ues in world.executor.learners.asked if k == edge]


# sampling


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.floats(0.01, 1.0), st.integers(0, 5))
def test_each_edge_gives_its_share_or_number_and_at_least_one(edges, fraction, count):
    edge_of = np.sort(np.array(edges))
    lots = Streams(1).at("x").uniform(edge_of.size)
    chosen = sampled(Sampling(fraction=fraction, count=count), edge_of, lots, num_edges=5)
    there, took = np.bincount(edge_of, minlength=5), np.bincount(edge_of[chosen], minlength=5)
    share = np.maximum(1, np.rint(there * fraction).astype(int))
    assert np.array_equal(took, np.minimum(there, count if count else share))
    for edge in range(5):
        inside = edge_of == edge
        if chosen[inside].any() and not chosen[inside].all():
            assert lots[inside & chosen].max() < lots[inside & ~chosen].min()


def test_all_ues_are_sampled_equally_often():
    edge_of = np.repeat(np.arange(4), 10)
    times = sum(
        sampled(Sampling(fraction=0.3), edge_of, Streams(0).at("sampling", t).uniform(40), num_edges=4).astype(int)
        for t in range(400)
    )
    assert abs(times - 120).max() < 45  # five standard deviations


def test_sampled_ues_keep_their_place_until_their_update_is_aggregated():
    world = make_world(
        life=living(sampling=Sampling(count=2)),
        planner="scripted",
        script=[[0], [0], [1]],
        staleness_bound=9,
    )
    _, records = play(world, 3)
    assert all(record.num_participants == 8 for record in records)
    assert [base for base, _ in asked(world, 0)] == [0, 1, 2]
    assert [base for base, _ in asked(world, 1)] == [0]
    assert len({tuple(ues) for _, ues in asked(world, 0)}) > 1


# availability


def test_the_two_state_process_settles_at_its_balance():
    process, available = TwoState(leave=0.1, come_back=0.3), np.ones(20_000, dtype=bool)
    for t in range(60):
        available = process.step(available, Streams(3).at("availability", t).uniform(20_000))
    assert available.mean() == pytest.approx(0.3 / (0.1 + 0.3), abs=0.02)


def test_an_edge_goes_on_without_a_ue_that_left_before_it_delivered():
    world = make_world(life=living(availability=away(3, since=1)), planner="scripted", loses_ues=True,
                       script=[[0], [1]])  # fmt: skip
    _, records = play(world, 2)
    assert asked(world, 1) == [(0, [3, 4, 5]), (0, [4, 5])]
    assert records[1].num_lost == 1
    assert records[1].staleness == (1,)


def test_the_update_of_a_ue_that_left_after_it_delivered_is_kept():
    """With trigger `first` edge 1's UEs deliver in round 0, and its backhaul arrives in round 1."""
    world = make_world(
        edges=2, trigger="first", max_edges=1, planner="shpfl", loses_ues=True,
        life=living(availability=away(*range(6), since=1, count=6)), seed=5,
    )  # fmt: skip
    state, record = play_round(world.state, world.parts, world.settings)
    rest = 1 - record.aggregated[0]
    assert (state.clock["ue_bits"][3 * rest : 3 * rest + 3] == 0).all()
    state, record = play_round(state, world.parts, world.settings)
    assert record.aggregated == (rest,)
    assert record.num_lost == 0
    assert len(asked(world, rest)) == 1


def test_an_edge_left_without_ues_drops_its_update_and_rejoins_fresh():
    world = make_world(life=living(availability=away(3, 4, 5, since=1, until=3)), planner="scripted", loses_ues=True,
                       script=[[0], [0], [0], [1]], staleness_bound=9)  # fmt: skip
    _, records = play(world, 4)
    assert [record.dropped for record in records] == [(), (1,), (), ()]
    assert [record.num_participants for record in records] == [12, 9, 9, 12]
    assert asked(world, 1) == [(0, [3, 4, 5]), (3, [3, 4, 5])]
    assert records[3].aggregated == (1,)
    assert records[3].staleness == (0,)


def test_when_nobody_is_there_the_cloud_waits_and_the_model_stays():
    world = make_world(life=living(availability=away(*range(12), since=1, until=3)), planner="full", loses_ues=True,
                       mishaps=Mishaps(idle_s=2.5))  # fmt: skip
    state, records = play(world, 4)
    assert [record.num_aggregated for record in records] == [4, 0, 0, 4]
    assert [record.latency_s for record in records[1:3]] == [2.5, 2.5]
    assert records[3].staleness == (0, 0, 0, 0)
    assert state.time_s == sum(record.latency_s for record in records)


# failures and deadlines


def test_struck_members_are_as_many_as_the_probability_says():
    assert struck(Streams(0).at("failure"), 10_000, 0.2).mean() == pytest.approx(0.2, abs=0.02)
    assert not struck(Streams(0).at("failure"), 100, 0.0).any()
    assert struck(Streams(0).at("failure"), 100, 1.0).all()


def test_a_spoilt_update_is_left_out_of_the_mean_and_costs_its_bits():
    world = make_world(life=living(), planner="full", loses_ues=True, mishaps=Mishaps(ue_failure=0.4))
    _, (record,) = play(world, 1)
    failed = struck(Streams(0).at("failure/ue", 0), 12, 0.4)
    for edge in record.aggregated:
        own = np.arange(3 * edge, 3 * edge + 3)
        assert asked(world, edge)[-1] == (0, own[~failed[own]].tolist())
    assert 0 < record.num_lost == failed.sum()
    assert record.uplink_bits == pytest.approx(BITS * (12 + record.num_aggregated))


def test_a_spoilt_backhaul_is_tried_again_in_the_next_round():
    world = make_world(life=living(), planner="full", clock="event", mishaps=Mishaps(edge_failure=0.5), seed=2)
    _, records = play(world, 6)
    for before, after in itertools.pairwise(records):
        again = set(before.scheduled) - set(before.aggregated) - set(before.dropped)
        stale = dict(zip(after.aggregated, after.staleness, strict=True))
        assert all(stale[edge] >= 1 for edge in again & set(after.aggregated))
    assert max(max(record.staleness, default=0) for record in records) >= 1


def test_a_dead_edge_loses_its_update_and_starts_afresh():
    world = make_world(life=living(edge_death=0.3), planner="scripted", script=[[0]], staleness_bound=50)
    state, records = play(world, 8)
    died = [edge for record in records for edge in record.dropped]
    assert set(died) - {0}
    for edge in set(died) - {0}:
        last = max(record.round for record in records if edge in record.dropped)
        assert state.base_round[edge] == last - 1


def test_no_deadline_cuts_nobody_and_none_cuts_before_the_first():
    first_s = np.array([0.0, 1.0, 5.0])
    assert np.isinf(cut_s(0.0, first_s)).all()
    assert cut_s(2.0, first_s) == pytest.approx([2.0, 2.0, 5.0])


def test_ues_that_finish_together_are_not_stragglers_of_each_other():
    """Exact bandwidth lets an edge's UEs end at one moment, up to rounding; a deadline before it spares them all."""
    world = make_world(life=living(), planner="full", deadline_s=1e-6, loses_ues=True)
    _, (record,) = play(world, 1)
    assert record.num_lost == 0


def test_a_deadline_shortens_rounds_and_leaves_stragglers_out():
    slow = make_world(planner="shpfl", max_edges=4)
    _, (patient,) = play(slow, 1)
    fast = make_world(planner="shpfl", max_edges=4, life=living(), deadline_s=patient.latency_s / 3, loses_ues=True)
    _, (record,) = play(fast, 1)
    assert record.num_lost > 0
    assert record.latency_s < patient.latency_s


# mobility


def walkers(low, high):
    return lambda fleet, streams: RandomWaypoint.around(fleet, (low, high), streams)


def test_ues_walk_at_their_speed_and_stay_in_the_area():
    world = make_world(life=living(mobility=walkers(3.0, 3.0)))
    life = world.executor.life
    walk = life.mobility.start(world.executor.fleet, Streams(0))
    gone = np.hypot(walk.to_x_m - walk.x_m, walk.to_y_m - walk.y_m).min() / 3.0 / 2
    later = life.mobility.move(walk, gone, Streams(0), 0)
    assert np.hypot(later.x_m - walk.x_m, later.y_m - walk.y_m) == pytest.approx(np.full(12, 3.0 * gone))
    far = life.mobility.move(walk, 1e5, Streams(0), 0)
    assert np.abs([far.x_m, far.y_m]).max() <= life.mobility.reach_m


def test_a_walk_in_two_parts_of_a_leg_is_the_walk_in_one():
    world = make_world(life=living(mobility=walkers(3.0, 3.0)))
    mobility, fleet = world.executor.life.mobility, world.executor.fleet
    walk = mobility.start(fleet, Streams(0))
    leg_s = np.hypot(walk.to_x_m - walk.x_m, walk.to_y_m - walk.y_m).min() / 3.0
    halves = mobility.move(mobility.move(walk, leg_s / 3, Streams(0), 0), leg_s / 3, Streams(0), 1)
    whole = mobility.move(walk, 2 * leg_s / 3, Streams(0), 0)
    assert halves.x_m == pytest.approx(whole.x_m)


def test_every_ue_belongs_to_the_nearest_edge():
    world = make_world(life=living(mobility=walkers(1.0, 50.0)))
    mobility = world.executor.life.mobility
    walk = mobility.move(mobility.start(world.executor.fleet, Streams(0)), 30.0, Streams(0), 0)
    edge, distance_m = mobility.nearest(walk)
    all_m = np.hypot(walk.x_m[:, None] - mobility.edge_x_m, walk.y_m[:, None] - mobility.edge_y_m)
    assert np.array_equal(edge, all_m.argmin(axis=1))
    assert distance_m == pytest.approx(np.maximum(all_m.min(axis=1), 1.0))


def test_a_hand_over_in_mid_upload_leaves_the_old_edge_and_waits_for_the_new_ones_next_round():
    world = make_world(life=living(mobility=walkers(100.0, 200.0)), planner="scripted", loses_ues=True,
                       script=[[0], [1], [2], [3]], staleness_bound=50, ues_per_edge=6)  # fmt: skip
    state, handed_over = world.state, 0
    for _ in range(12):
        before = state.clock.get("serves")
        delivered = state.clock.get("ue_bits")
        awaiting = state.awaiting
        state, record = play_round(state, world.parts, world.settings)
        if before is None:
            continue
        was = (before >= 0) & ~awaiting[before] & (delivered > 0)
        now = state.clock["serves"]
        moved = was & (now != before)
        fresh = state.base_round == record.round - 1
        handed_over += moved.sum()
        assert record.num_lost >= moved.sum() - np.isin(before[moved], record.dropped).sum()
        joined = moved & (now >= 0)
        assert all(fresh[k] or k in record.aggregated for k in now[joined])
    assert handed_over > 0
    members = world.executor.learners.asked
    assert all(len(set(ues)) == len(ues) for _, _, ues in members)


# fading


def test_a_fade_lasts_as_many_rounds_as_it_should():
    world = make_world()
    radio = world.executor.radio.__class__(**(vars(world.executor.radio) | {"coherence_rounds": 3}))
    assert [radio.moment(t, 0.0).block for t in range(7)] == [0, 0, 0, 1, 1, 1, 2]
    seconds = radio.__class__(**(vars(radio) | {"coherence_s": 0.5}))
    assert seconds.moment(9, 0.9, later=2) == (9, 2, 3)
    assert seconds.moment(9, 0.9, later=2, began_s=0.4) == (9, 3, 3)
    assert [seconds.moment(9, t).block for t in (0.0, 0.49, 0.5, 1.7)] == [0, 0, 1, 3]
