"""Broadcasts that take time, in whole rounds: clocks, books of who holds what, misses, timeline, energy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulation_worlds import MODEL_BITS, charged, make_world

from hpfl.network.availability import TwoState
from hpfl.network.distributions import Uniform
from hpfl.network.downlink import Powers
from hpfl.network.mobility import RandomWaypoint
from hpfl.network.path_losses import PathLoss
from hpfl.network.sampling import Sampling
from hpfl.planning.broadcast import broadcast_time
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.roster import Life
from hpfl.simulation.virtual_executor import Mishaps
from hpfl.training import loop
from hpfl.training.broadcasting import Broadcasting
from hpfl.training.held_rounds import HeldRounds
from hpfl.training.loop import play_round
from hpfl.training.step_coding import CLOUD_CODEC


def play(world, rounds):
    state, records = world.state, []
    for _ in range(rounds):
        state, record = play_round(state, world.parts, world.settings)
        records.append(record)
    return state, records


def books(state):
    return HeldRounds.of(state.clock, num_ues=state.joules.size, num_edges=state.base_round.size)


@pytest.mark.parametrize("clock", ["round", "event"])
def test_a_round_lasts_as_long_as_its_uploads_and_its_broadcast(clock):
    free, paid = make_world(clock=clock), charged(make_world(clock=clock))
    (_, before), (state, after) = play(free, 1), play(paid, 1)
    assert after[0].broadcast_s > 0
    assert after[0].latency_s == pytest.approx(before[0].latency_s + after[0].broadcast_s)
    assert state.time_s == after[0].time_s == pytest.approx(before[0].time_s + after[0].broadcast_s)
    assert after[0].scheduled == before[0].scheduled
    phases = after[0].compute_s, after[0].access_s, after[0].backhaul_s, after[0].broadcast_s
    assert min(phases) > 0
    assert sum(phases) == pytest.approx(after[0].latency_s)
    told = len(after[0].scheduled)
    assert after[0].downlink_bits == MODEL_BITS * (1 + told)
    assert (before[0].broadcast_s, before[0].downlink_bits, before[0].downlink_j) == (0.0, 0.0, 0.0)


def test_the_plan_foretells_the_broadcast_and_knows_of_the_way_down():
    seen = []
    world = charged(make_world(clock="round", broadcast="all"))
    planner = world.parts.planner

    def watching(problem, memory, stream):
        seen.append(problem.downlink)
        return planner(problem, memory, stream)

    world.parts = replace(world.parts, planner=watching)
    plans, execute = [], type(world.executor).execute

    class Watched(type(world.executor)):
        def execute(self, state, observation, plan):
            plans.append(plan)
            return execute(self, state, observation, plan)

    world.parts = replace(world.parts, executor=Watched(**vars(world.executor)))
    _, records = play(world, 3)
    assert [plan.broadcast_s for plan in plans] == pytest.approx([record.broadcast_s for record in records])
    assert all(known.cell_ues.tolist() == [3, 3, 3, 3] for known in seen)
    everybody = np.ones(4, dtype=np.bool_)
    again = broadcast_time(seen[0], everybody, MODEL_BITS, world.settings.bandwidth_hz)
    assert again.seconds == records[0].broadcast_s


def test_joules_of_listening_ues_are_counted_and_those_of_servers_told():
    free, paid = make_world(clock="round"), charged(make_world(clock="round"), powers=Powers(ue_receive_w=5.0))
    (idle, before), (state, after) = play(free, 1), play(paid, 1)
    listening = state.joules - idle.joules
    hears = np.isin(paid.executor.fleet.edge_of_ue, after[0].scheduled)
    assert (listening[hears] > 0).all()
    assert listening[~hears] == pytest.approx(0.0)
    assert after[0].energy_j - before[0].energy_j == pytest.approx(listening.sum())
    assert after[0].downlink_j > listening.sum()


def test_uploads_in_flight_pause_for_a_broadcast_and_computing_goes_on():
    free, paid = (make_world(clock="event", max_edges=1, cpu_hz=Uniform(2e5, 4e6)) for _ in range(2))
    charged(paid, model_bits=1e5, step_bits=(1e5,))
    (_, before), (idle, _), (state, after) = play(free, 1), play(free, 1), play(paid, 1)
    waits = ~np.isin(paid.executor.fleet.edge_of_ue, before[0].scheduled)
    left, was = state.clock["compute_s"], idle.clock["compute_s"]
    assert was[waits].max() > 0
    np.testing.assert_allclose(left[waits], np.maximum(was[waits] - after[0].broadcast_s, 0.0), atol=1e-12)
    np.testing.assert_array_equal(state.clock["ue_bits"][waits], idle.clock["ue_bits"][waits])
    assert (state.joules - idle.joules)[waits].sum() > 0  # what was computed meanwhile


def test_the_timeline_shows_a_stretch_in_which_the_others_wait():
    world = charged(make_world(clock="round"))
    _, records = play(world, 2)
    for record in records:
        rows = [row for row in record.phases.rows() if row["end_s"] > record.time_s - record.broadcast_s + 1e-12]
        assert {row["edge"] for row in rows} == {0, 1, 2, 3}
        for row in rows:
            told = row["edge"] in record.scheduled
            assert row["phase"] == ("broadcast" if told else "waiting")
            assert row["start_s"] == pytest.approx(record.time_s - record.broadcast_s)
            assert row["end_s"] == pytest.approx(record.time_s)
            assert row["bits"] == (MODEL_BITS if told else 0.0)
        moment = [row["start_s"] for row in record.phases.rows() if row["phase"] == "aggregated"]
        assert moment == pytest.approx([record.time_s - record.broadcast_s] * len(moment))


def test_coded_steps_are_shorter_and_whoever_was_left_alone_lacks_them_all():
    world = charged(
        make_world(clock="round", planner="scripted", script=[[0], [0], [1]], staleness_bound=9), coded=True
    )
    state, records = play(world, 3)
    message = 8 * 3 + 32
    assert records[0].downlink_bits == 2 * message
    assert records[1].downlink_bits == 2 * message
    assert records[2].downlink_bits == 2 * MODEL_BITS  # 3 messages are more than the model
    assert books(state).edge_round.tolist() == [2, 3, 0, 0]


def living(**parts):
    def make(fleet, streams):
        made = {name: part(fleet, streams) if name == "mobility" else part for name, part in parts.items()}
        return Life(**({"fleet": fleet, "streams": streams, "sampling": Sampling()} | made))

    return make


def test_a_ue_that_missed_a_broadcast_says_so_and_takes_no_part():
    world = charged(
        make_world(clock="round", broadcast="all", life=living(), mishaps=Mishaps(ue_failure=0.5), loses_ues=True),
        ue_failure=0.5,
    )
    state, missed = world.state, 0
    for _ in range(6):
        state, record = play_round(state, world.parts, world.settings)
        behind = books(state).ue_round < state.round
        assert behind.sum() >= record.num_missed
        asked = len(world.executor.learners.asked)
        state_after, _ = play_round(state, world.parts, world.settings)
        began = [ues for base, _, ues in world.executor.learners.asked[asked:] if base == state.round]
        assert not set(np.flatnonzero(behind)) & {ue for ues in began for ue in ues}
        missed += record.num_missed
        state = state_after
    assert missed > 0


def test_the_way_down_waits_for_the_most_backward_of_those_who_are_there():
    def available(moment):
        mask = np.ones(12, dtype=bool)
        mask[0] = not 1 <= moment[0] < 4  # UE 0 is away in rounds 1 to 3
        return mask

    world = charged(
        make_world(clock="round", planner="full", broadcast="all", life=living(availability=available), loses_ues=True),
        coded=True,
        model_bits=1e9,
        step_bits=(24.0,),
    )
    played = list(steps_of(world, 6))
    state, seen = played[-1][1], [observation.downlink for _, _, _, observation, _ in played]
    assert [one.cell_ues[0] for one in seen] == [3, 2, 2, 2, 3, 3]
    lacks = [one.cell_bits[0] for one in seen]
    assert lacks[:4] == [0.0] * 4
    assert lacks[4] == 3 * 24.0  # steps 2 to 4, of which it has heard nothing
    assert lacks[5] == 0.0
    assert (books(state).ue_round == 6).all()


@pytest.mark.parametrize("reuse", [1, 2])
def test_a_trace_replays_broadcasts_to_the_same_bits(reuse):
    drawn = {}

    def world_of(record):
        life = {"life": living(availability=TwoState(leave=0.3, come_back=0.5)), "loses_ues": True}
        world = make_world(clock="event", broadcast="all", coherence_s=0.05, record=record, **life)
        near = PathLoss(gain_at_1m_linear=10**-3.6, exponent=2.0)
        return charged(world, model_bits=1e5, step_bits=(1e5,), reuse=reuse, cross_path=near)

    first, again = world_of(lambda what, key, values: drawn.update({(what, key): values})), world_of(None)
    _, records = play(first, 4)
    radio = replace(
        again.executor.radio,
        channel=None,
        ue_gain=lambda key: drawn["ue_gain", key],
        edge_gain=lambda key: drawn["edge_gain", key],
    )
    again.parts = replace(again.parts, executor=replace(again.executor, radio=radio))
    _, replayed = play(again, 4)
    assert [one.to_json() for one in replayed] == [one.to_json() for one in records]
    assert all(one.broadcast_s > 0 for one in records)


def test_cells_that_share_the_band_wait_for_the_ue_that_is_disturbed_most():
    def seconds(reuse, gain_at_1m_linear):
        near = PathLoss(gain_at_1m_linear=gain_at_1m_linear, exponent=2.0)
        world = charged(make_world(clock="round", broadcast="all"), reuse=reuse, cross_path=near)
        return play(world, 1)[1][0].broadcast_s

    alone = seconds(1, 1.0)
    assert seconds(4, 1e-15) < alone < seconds(4, 1.0)
    assert seconds(4, 1e-15) < seconds(2, 1e-15) < alone


@pytest.mark.parametrize("clock", ["round", "event"])
def test_a_run_that_is_resumed_from_its_checkpoint_goes_on_to_the_same_bits(tmp_path, clock):
    def world():
        life = {"life": living(availability=TwoState(leave=0.3, come_back=0.5)), "loses_ues": True}
        failing = {"mishaps": Mishaps(ue_failure=0.2)}
        return charged(make_world(clock=clock, broadcast="all", **life, **failing), coded=True, ue_failure=0.2)

    whole, first = world(), world()
    state, records = play(whole, 6)
    half, _ = play(first, 3)
    save_checkpoint(tmp_path, half, fingerprint="x")
    again = world()
    again.state = load_latest(tmp_path, fingerprint="x").state
    resumed, later = play(again, 3)
    assert torch.equal(resumed.params, state.params)
    assert [one.to_json() for one in later] == [one.to_json() for one in records[3:]]
    assert CLOUD_CODEC in state.kept


class Receivers:
    """Edges and UEs that really decode: each holds a model, edges also the messages they have received."""

    def __init__(self, params, num_ues, num_edges):
        self.ues, self.edges = [params] * num_ues, [params] * num_edges
        self.known = [{} for _ in range(num_edges)]
        self.messages = {}

    def bits(self, numbers):
        return sum(0.0 if self.messages[one] is None else self.messages[one].bits for one in numbers)

    def hear(self, before, state, found, listening, misses):
        """What the multicasts carry is enough for everybody that hears, and makes it the cloud's model."""
        old, new = books(before), state.round
        steps = [range(int(held) + 1, new + 1) for held in old.edge_round]
        for edge in np.flatnonzero(found.hears):
            if found.whole[edge]:
                self.edges[edge], self.known[edge] = state.params, {}
            else:
                assert self.bits(steps[edge]) <= found.cloud_bits + 1e-9
                self.known[edge] |= {number: self.messages[number] for number in steps[edge]}
                self.edges[edge] = self.moved(self.edges[edge], self.known[edge], steps[edge])
        for ue, edge in listening:
            wanted = range(int(old.ue_round[ue]) + 1, new + 1)
            if ue in misses:
                continue
            if set(wanted) <= set(self.known[edge]) and self.bits(wanted) <= found.cell_bits[edge] + 1e-9:
                self.ues[ue] = self.moved(self.ues[ue], self.known[edge], wanted)
            else:
                assert found.cell_bits[edge] >= MODEL_BITS
                self.ues[ue] = self.edges[edge]

    @staticmethod
    def moved(model, messages, numbers):
        for number in numbers:
            model = model if messages[number] is None else messages[number].taken_by(model)
        return model


class Watching(Broadcasting):
    """Keeps every broadcast, with the observation it was made on."""

    def told(self, state, edges, observation, *, step_bits, clock):
        found = broadcast_time(observation.downlink, edges, step_bits, self.bandwidth_hz)
        self.__dict__.setdefault("made", []).append((observation, found))
        return super().told(state, edges, observation, step_bits=step_bits, clock=clock)


def steps_of(world, rounds):
    """Rounds played one by one: the states before and after, the step, the observation and the broadcast."""
    downlink = Watching(**vars(world.executor.downlink))
    parts = replace(world.parts, executor=replace(world.executor, downlink=downlink))
    taken, plain, state = [], loop.step, world.state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "step", lambda *given, **options: taken.append(plain(*given, **options)) or taken[-1])
        for _ in range(rounds):
            before = state
            state, _ = play_round(before, parts, world.settings)
            yield before, state, taken[-1], *downlink.made[-1]


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    clock=st.sampled_from(["round", "event"]),
    broadcast=st.sampled_from(["scheduled", "all"]),
    ue_failure=st.sampled_from([0.0, 0.3]),
    leave=st.sampled_from([0.0, 0.3]),
    speed=st.sampled_from([0.0, 40.0]),
    edge_death=st.sampled_from([0.0, 0.2]),
)
def test_nobody_ever_ends_with_another_model_than_the_cloud_had(
    seed, clock, broadcast, ue_failure, leave, speed, edge_death
):
    life = living(
        availability=TwoState(leave=leave, come_back=0.5) if leave else None,
        mobility=lambda fleet, streams: RandomWaypoint.around(fleet, (1.0, speed), streams) if speed else None,
        edge_death=edge_death,
    )
    failing = {"mishaps": Mishaps(ue_failure=ue_failure), "loses_ues": True}
    world = make_world(seed=seed, clock=clock, broadcast=broadcast, life=life, max_edges=1, **failing)
    world = charged(world, coded=True, ue_failure=ue_failure)
    receivers, history = Receivers(world.state.params, 12, 4), {0: world.state.params}
    for before, state, taken, observation, found in steps_of(world, 6):
        receivers.messages[state.round], history[state.round] = taken.sent, state.params
        after, under = books(state), observation.under
        listening = [(ue, under[ue]) for ue in np.flatnonzero((under >= 0) & found.hears[under])]
        misses = {ue for ue, _ in listening if after.ue_round[ue] < state.round}
        receivers.hear(before, state, found, listening, misses)
        for held, models in ((after.edge_round, receivers.edges), (after.ue_round, receivers.ues)):
            for number, model in zip(held.tolist(), models, strict=True):
                assert torch.equal(model, history[number])
