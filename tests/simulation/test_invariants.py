"""What holds whatever happens: over random schedules, bandwidths, delays, churn, failures, clocks and triggers."""

import collections
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from simulation_worlds import BITS, charged, make_world

from hpfl.network.availability import TwoState
from hpfl.network.mobility import RandomWaypoint
from hpfl.network.sampling import Sampling
from hpfl.planning import plan_with_bandwidth
from hpfl.simulation.roster import Life
from hpfl.simulation.virtual_executor import Mishaps
from hpfl.training.loop import play_round

chances = st.sampled_from([0.0, 0.0, 0.2, 0.6])
STALENESS_BOUND = 2


def any_plan(chosen, shares):
    """A planner that schedules what the test says, and gives every link some share of the band."""

    def planner(problem, memory, stream):
        scheduled = problem.must | (stream.uniform(problem.num_edges) < chosen)
        if not scheduled.any():
            scheduled[0] = True
        weights = 0.05 + stream.uniform(problem.num_ues + problem.num_edges, start=problem.num_edges) ** shares
        ue_hz = np.where(scheduled[problem.edge_of_ue], weights[: problem.num_ues], 0.0)
        edge_hz = np.where(scheduled, weights[problem.num_ues :], 0.0)
        most_hz = problem.bandwidth_hz * (1 - 1e-12)
        phased = problem.spectrum == "phased"
        hz = (ue_hz, edge_hz) if phased else (np.concatenate([ue_hz, edge_hz]),)
        ue_hz, edge_hz = np.split(np.concatenate([one * most_hz / one.sum() for one in hz]), [ue_hz.size])
        switch = "one" if phased else None
        plan = plan_with_bandwidth(problem, scheduled, (ue_hz, edge_hz), planner="any", switch=switch)
        return replace(plan, exceeds_cap=bool(scheduled.sum() > problem.most_edges)), memory

    return planner


class Rounds(RuleBasedStateMachine):
    """Plays rounds and keeps its own books of every update."""

    @initialize(
        seed=st.integers(0, 10**6),
        edges=st.integers(1, 5),
        clock=st.sampled_from(["round", "event", "event"]),
        trigger=st.sampled_from(["scheduled", "first"]),
        broadcast=st.sampled_from(["scheduled", "scheduled", "all"]),
        deadline_s=st.sampled_from([0.0, 0.0, 0.1, 2.0]),
        coherence_s=st.sampled_from([0.0, 0.0, 0.3]),
        leave=chances,
        ue_failure=chances,
        edge_failure=chances,
        edge_death=st.sampled_from([0.0, 0.0, 0.2]),
        speed=st.sampled_from([0.0, 0.0, 30.0]),
        fraction=st.sampled_from([1.0, 0.5]),
        max_edges=st.sampled_from([1, 1, 2]),
        downlink=st.sampled_from(["free", "charged", "coded"]),
        spectrum=st.sampled_from(["fixed", "phased"]),
    )
    def begin(self, seed, edges, clock, trigger, broadcast, deadline_s, coherence_s, **life):
        def lives(fleet, streams):
            return Life(
                fleet=fleet,
                streams=streams,
                sampling=Sampling(fraction=life["fraction"]),
                availability=TwoState(leave=life["leave"], come_back=0.5) if life["leave"] else None,
                mobility=RandomWaypoint.around(fleet, (1.0, life["speed"]), streams) if life["speed"] else None,
                edge_death=life["edge_death"],
            )

        first = trigger == "first" and clock == "event"
        self.carries_over = clock == "event"
        self.whole = not (deadline_s or life["ue_failure"] or life["leave"] or life["speed"])
        self.world = make_world(
            seed=seed,
            edges=edges,
            clock=clock,
            trigger="first" if first else "scheduled",
            broadcast=broadcast,
            deadline_s=deadline_s,
            coherence_s=coherence_s if clock == "event" else 0.0,
            max_edges=life["max_edges"],
            staleness_bound=STALENESS_BOUND,
            life=lives,
            mishaps=Mishaps(ue_failure=life["ue_failure"], edge_failure=life["edge_failure"]),
            loses_ues=True,
            spectrum=life["spectrum"],
        )
        if life["downlink"] != "free":
            charged(self.world, ue_failure=life["ue_failure"], coded=life["downlink"] == "coded")
        self.state = self.world.state
        self.held = dict.fromkeys(range(edges), 0)
        self.sent = collections.Counter()
        self.ended = set()

    @precondition(lambda self: hasattr(self, "state"))
    @rule(chosen=st.floats(0.0, 1.0), shares=st.sampled_from([0, 1, 6]))
    def play(self, chosen, shares):
        world, before = self.world, self.state
        world.parts.__dict__["planner"] = any_plan(chosen, shares)
        self.state, record = play_round(before, world.parts, world.settings)
        assert self.state.time_s >= before.time_s
        assert record.bandwidth_used_hz <= world.settings.bandwidth_hz
        assert max(record.staleness, default=0) <= STALENESS_BOUND
        assert self.state.staleness.max() <= STALENESS_BOUND
        assert (self.state.joules >= before.joules).all()
        for row in record.phases.rows():
            self.read(row, record)
        assert self.held == dict(enumerate(self.state.base_round.tolist()))

    def read(self, row, record):
        edge, phase, base = row["edge"], row["phase"], row["base_round"]
        if phase == "broadcast":
            assert base == record.round
            self.held[edge] = base
            return
        before_plan = row["end_s"] < record.time_s - record.broadcast_s - 1e-9
        if phase == "dropped" and before_plan:  # it starts afresh at once
            self.close(edge, base)
            self.held[edge] = record.round - 1
            return
        if base == record.round - 1 and self.held[edge] != base:  # an edge that had nobody starts on the newest model
            self.held[edge] = base
        assert self.held[edge] == base
        assert row["start_s"] <= row["end_s"]
        self.sent[edge, base, phase] += row["bits"]
        if phase == "aggregated":
            self.arrive(edge, base, row)
        if phase in {"aggregated", "dropped", "superseded"}:
            self.close(edge, base)

    def arrive(self, edge, base, row):
        """The update is what its edge computed on the model it held, and all its bits have been sent."""
        asked = [ues for held, k, ues in self.world.executor.learners.asked if (held, k) == (base, edge)]
        assert asked
        again = self.sent[edge, base, "backhaul"] / BITS
        assert round(again) >= 1
        assert abs(again - round(again)) < 1e-6
        uploads = self.sent[edge, base, "edge_upload"] / BITS
        assert uploads >= len(asked[-1]) - 1e-6
        if self.whole and self.carries_over:
            assert abs(uploads - len(asked[-1])) < 1e-6

    def close(self, edge, base):
        """No update ends twice; a second one on the same model only where the edge began anew on it."""
        serial = (
            edge,
            base,
            len([1 for held, k, _ in self.world.executor.learners.asked if (held, k) == (base, edge)]),
        )
        assert serial not in self.ended
        self.ended.add(serial)


Rounds.TestCase.settings = settings(
    deadline=None, max_examples=120, stateful_step_count=15, suppress_health_check=[HealthCheck.too_slow]
)
TestRounds = Rounds.TestCase


def test_the_first_arrivals_never_make_the_others_wait_beyond_the_bound():
    world = make_world(edges=5, trigger="first", max_edges=1, staleness_bound=2, planner=any_plan(0.5, 1))
    state, seen = world.state, []
    for _ in range(20):
        state, record = play_round(state, world.parts, world.settings)
        seen += record.staleness
    assert max(seen) == 2
