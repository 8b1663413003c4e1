"""Plays a round in virtual time: real gradients, a drawn channel, a clock that only computes."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.channel import Gains
from hpfl.network.energy import compute_j
from hpfl.network.failures import struck
from hpfl.network.links import Links
from hpfl.network.places import Places, places_at_rest
from hpfl.network.radio import Radio
from hpfl.network.topology import Fleet
from hpfl.planning.problem import Plan
from hpfl.rng import Streams
from hpfl.simulation.edge_timeline import stretches, with_sketching
from hpfl.simulation.learners import CODING_NOISE, Learners, Pending, held_models
from hpfl.simulation.roster import SERVES, Life, Roster, everyone, sorted_by_edge, walked_places
from hpfl.simulation.sketching import Sketching, computed, slowest
from hpfl.simulation.work_sizes import WorkSizes
from hpfl.training.broadcasting import Broadcasting
from hpfl.training.clock import Clock, ClockMemory, Progress, Span, Work, joules_of
from hpfl.training.cloud_step import Step
from hpfl.training.loop import received
from hpfl.training.remembered import Remembered
from hpfl.training.state import EdgeUpdate, Heard, Observation, Outcome, TrainState


@dataclass(frozen=True, kw_only=True)
class Mishaps:
    """Chances per round that a UE's or an edge's upload arrives spoilt, and the wait (s) when nobody is there."""

    ue_failure: float = 0.0
    edge_failure: float = 0.0
    idle_s: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SimulatedExecutor:
    """Stands behind the loop's `Executor`; everything it must remember is in the `TrainState` it is given.

    `life` is None for a network in which nothing changes but the fading; `loses_ues` says whether UEs can be left out
    of an edge round they have begun. Without a `downlink`, broadcasts take no time. `newcomers` never train (None:
    everybody does). An edge with fewer UEs than it `needs` [K] (None: one) has no update.
    """

    fleet: Fleet
    radio: Radio
    load: WorkSizes
    clock: Clock
    learners: Learners
    streams: Streams
    staleness_bound: int
    life: Life | None = None
    mishaps: Mishaps = Mishaps()
    loses_ues: bool = False
    sketching: Sketching | None = None
    downlink: Broadcasting | None = None
    newcomers: BoolArray | None = None
    needs: IntArray | None = None

    def observe(self, state: TrainState) -> Observation:
        """The network lives on to this round; edges that start compute their updates; fading is drawn anew."""
        roster = self._roster(state)
        base_round = np.where(roster.starts | roster.idle, state.round, state.base_round)
        memory = dict(roster.memory)
        if self.loses_ues or self.load.codings:
            memory |= held_models(memory, state.params, this_round=state.round, base_round=base_round)
        pending = self._computed(state, roster, memory, base_round)
        if pending.noise is not None:
            memory[CODING_NOISE] = pending.noise
        starting = roster.members[roster.starts[roster.edge_of]]
        whole, places = self.load.whole(self.fleet, state.round), self._places(roster.memory)
        work, clock = self.clock.remaining(memory, whole, members=starting, edges=roster.starts)
        seen = Observation(
            links=self._links(state, roster, work, whole, places),
            pending=pending.update,
            importance=pending.importance,
            clock=clock,
            codings=None if pending.noise is None else self.load.menu(pending.noise),
            active=None if self.life is None else ~roster.idle,
            dropped=None if self.life is None else roster.dropped,
            base_round=None if self.life is None else base_round,
            num_lost=roster.num_lost,
            num_below=roster.num_below,
            num_scaled=pending.num_scaled,
            kept=pending.remembered.rows,
            edge_rules=pending.remembered.rules,
            places=places,
            releases=self.learners.releases(roster.members, roster.edge_of, roster.starts, self.fleet.num_ues),
        )
        if self.downlink is not None:
            everybody = np.arange(self.fleet.num_ues)
            gains = self._gains(state, 0, began_s=state.time_s, members=everybody, places=places)
            known = self.downlink.known(state, roster.under, gains, places)
            seen = replace(seen, downlink=known, under=roster.under)
        if self.sketching is None:
            return seen
        return self._sketched(seen, self.sketching, roster.starts, whole.compute_s)

    def _sketched(
        self, seen: Observation, sketching: Sketching, starts: BoolArray, compute_s: FloatArray
    ) -> Observation:
        """The observation once everybody's sketch is there, with what that took, and would take of a new model."""
        members = seen.links.members
        spent = sketching.spent(seen.links, starts, self.fleet.cpu_hz[members])
        joules = np.zeros(self.fleet.num_ues)
        joules[members] = spent.joules
        sketches = sketching.sketches(seen.pending)
        return replace(
            seen,
            links=computed(seen.links),
            importance=(sketches**2).sum(axis=1) if sketching.importance else seen.importance,
            sketches=sketches,
            spent_s=spent.seconds,
            spent_bits=spent.bits,
            spent_j=joules,
            renewal_s=slowest(compute_s[members], seen.links.edge_of_ue, starts.size),
        )

    def execute(self, state: TrainState, observation: Observation, plan: Plan) -> Outcome:
        """Let the clock carry the plan out; the arrived edges' updates are read from what was pending."""
        active = np.ones(self.fleet.num_edges, dtype=np.bool_) if observation.active is None else observation.active
        before, state = state, state.but(time_s=state.time_s + observation.spent_s)
        if plan.coding:
            links = observation.links.carrying(*self.load.of_coding(plan.coding))
            observation = replace(observation, links=links)
        interval = self._interval(state, observation, plan, began_s=before.time_s)
        progress = self.clock.advance(observation.clock, interval)
        if not active.any():
            progress = replace(progress, latency_s=self.mishaps.idle_s)
        pending, memory = self._after_losses(state, observation, progress)
        sent = self._sent(state, observation.links, progress, pending, plan.coding)
        phases = stretches(state, plan, progress, active)
        if observation.spent_s > 0:
            phases = with_sketching(before, phases, observation.spent_s, active)
        joules = np.zeros(self.fleet.num_ues)
        members = observation.links.members
        joules[members] = joules_of(progress, self.fleet.cpu_hz[members])
        return Outcome(
            arrivals=self._arrivals(state, observation.links, progress, sent),
            latency_s=progress.latency_s,
            uplink_bits=progress.uplink_bits,
            joules=joules,
            clock=memory,
            pending=pending.update,
            importance=pending.importance,
            dropped=progress.dropped,
            fresh=progress.dropped | ~active,
            num_lost=int(progress.lost.sum()),
            num_below=0 if progress.below is None else int(progress.below.sum()),
            phases=phases,
            kept=sent.remembered.rows,
            edge_rules=sent.remembered.rules,
        )

    def broadcast(self, state: TrainState, edges: BoolArray, observation: Observation, step: Step) -> Heard:
        """Downlinks take no time in the paper's model (section 3.3), unless they are charged."""
        if self.downlink is None:
            return Heard(state=received(state, edges))
        return self.downlink.told(state, edges, observation, step_bits=step.bits, clock=self.clock)

    def _roster(self, state: TrainState) -> Roster:
        if self.life is None:
            return everyone(self.fleet, state, self.newcomers)
        return self.life.roster(state, self.clock.delivered(state.clock, self.fleet.num_ues))

    def _computed(self, state: TrainState, roster: Roster, memory: ClockMemory, base_round: IntArray) -> Pending:
        """Pending updates once the starting edges have computed on the current model, and the depleted ones again."""
        known = Remembered(state.kept, state.edge_rules)
        noise = memory.get(CODING_NOISE)
        pending = Pending(update=state.pending, importance=state.importance, remembered=known, noise=noise)
        ues, edges = roster.members, roster.edge_of
        pending = self.learners.renewed(
            pending, roster.starts, state.params, members=ues, edge_of=edges, base_round=state.round
        )
        if roster.touched.any():
            pending = self.learners.without_lost(
                pending, roster.touched, memory, members=ues, edge_of=edges, base_round=base_round
            )
        return pending

    def _after_losses(
        self, state: TrainState, observation: Observation, progress: Progress
    ) -> tuple[Pending, ClockMemory]:
        """Updates and memory without the UEs that were lost on the way."""
        known = Remembered(observation.kept or {}, observation.edge_rules or {})
        noise = progress.memory.get(CODING_NOISE)
        pending = Pending(update=observation.pending, importance=observation.importance, remembered=known, noise=noise)
        if not progress.lost.any():
            return pending, progress.memory
        links = observation.links
        serves = progress.memory[SERVES].copy()
        serves[links.members[progress.lost]] = -1
        touched = np.zeros(self.fleet.num_edges, dtype=np.bool_)
        touched[links.edge_of_ue[progress.lost]] = True
        touched[progress.dropped] = False
        members, edge_of = sorted_by_edge(serves)
        touched &= np.bincount(edge_of, minlength=self.fleet.num_edges) > 0
        pending = self.learners.without_lost(
            pending, touched, progress.memory, members=members, edge_of=edge_of, base_round=state.base_round
        )
        noises = {} if pending.noise is None else {CODING_NOISE: pending.noise}
        return pending, dict(progress.memory) | {SERVES: serves} | noises

    def _sent(self, state: TrainState, links: Links, progress: Progress, pending: Pending, coding: int) -> Pending:
        """The updates with those of the arrived edges as they arrive, coded by an entry of the menu."""
        if not self.load.codings:
            return pending
        there = ~progress.lost
        return self.learners.uploaded(
            pending,
            progress.arrived,
            progress.memory,
            members=links.members[there],
            edge_of=links.edge_of_ue[there],
            base_round=state.base_round,
            coding=coding,
        )

    def _arrivals(
        self, state: TrainState, links: Links, progress: Progress, pending: Pending
    ) -> tuple[EdgeUpdate, ...]:
        there = ~progress.lost
        weights = self.learners.edge_weights(links.members[there], links.edge_of_ue[there], self.fleet.num_edges)
        counted, heard = self.learners.counted, int(progress.arrived[links.edge_of_ue[there]].sum())
        return tuple(
            EdgeUpdate(
                member=edge,
                base_round=int(state.base_round[edge]),
                update=pending.update[edge] if counted is None else counted.of(pending.update[edge], heard),
                weight=float(weights[edge]),
                importance=float(pending.importance[edge]),
            )
            for edge in np.flatnonzero(progress.arrived).tolist()
        )

    def _interval(self, state: TrainState, observation: Observation, plan: Plan, *, began_s: float) -> Span:
        chances, at, links = self.mishaps, self.streams.at, observation.links
        places = self._places(observation.clock)
        return Span(
            links=links,
            plan=plan,
            start_s=state.time_s,
            must=state.staleness >= self.staleness_bound,
            whole_edge_bits=np.full(self.fleet.num_edges, self.load.of_coding(plan.coding)[1]),
            ue_fails=struck(at("failure/ue", state.round), self.fleet.num_ues, chances.ue_failure)[links.members],
            edge_fails=struck(at("failure/edge", state.round), self.fleet.num_edges, chances.edge_failure),
            gains=partial(self._gains, state, began_s=began_s, members=links.members, places=places),
            needs=self.needs,
        )

    @cached_property
    def _places_at_rest(self) -> Places:
        return places_at_rest(self.fleet, self.streams)

    def _places(self, memory: ClockMemory) -> Places:
        """Where everything is, as far as a channel may know it in this round."""
        mobility = None if self.life is None else self.life.mobility
        return self._places_at_rest if mobility is None else walked_places(mobility, self.fleet, memory)

    def _gains(self, state: TrainState, later: int, *, began_s: float, members: IntArray, places: Places) -> Gains:
        """Gains `later` coherence blocks from now on, in a round that was observed at `began_s`."""
        moment = self.radio.moment(state.round, state.time_s, later, began_s=began_s)
        return self.radio.gains(moment, places, self.streams, members=members)

    def _links(self, state: TrainState, roster: Roster, work: Work, whole: Work, places: Places) -> Links:
        """The links with the work that is left, and the joules of computing all of it anew, which every model costs."""
        fleet, members = self.fleet, roster.members
        ue_gain, edge_gain = self._gains(state, 0, began_s=state.time_s, members=members, places=places)
        return Links(
            edge_gain=edge_gain,
            edge_power_w=fleet.edge_power_w,
            edge_noise_w_per_hz=np.full(fleet.num_edges, self.radio.noise_w_per_hz),
            edge_bits=work.edge_bits,
            members=members,
            edge_of_ue=roster.edge_of,
            ue_gain=ue_gain,
            ue_power_w=fleet.ue_power_w[members],
            ue_noise_w_per_hz=np.full(members.size, self.radio.noise_w_per_hz),
            ue_bits=work.ue_bits[members],
            compute_s=work.compute_s[members],
            compute_j=compute_j(whole.compute_s[members], fleet.cpu_hz[members]),
        )
