"""Stands behind the loop's `Executor` for real: what the simulator computes, this asks of edges over the network."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, IntArray
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.audit import Aggregated, AuditLog
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.cloud import Cloud
from hpfl.deployment.deliveries import Delivered, Held
from hpfl.deployment.evaluating import COLUMNS
from hpfl.deployment.measured_timeline import RoundTimes, stretches
from hpfl.deployment.node_parts import LinkModel, sketch_width
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.wire import DIGEST_BYTES, Tag, Vector, digest_of
from hpfl.learning import Evaluation
from hpfl.network.energy import compute_j, transmit_j
from hpfl.network.links import Links
from hpfl.planning.problem import Plan
from hpfl.training.loop import received
from hpfl.training.record import EvaluationSummary, summary_of
from hpfl.training.state import EdgeUpdate, Observation, Outcome, TrainState

_SKETCH_NUMBER_BITS = 64
_DIGEST = "digest"  # of the model each edge holds, in the executor's memory between rounds


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One round as planned and as measured, in seconds of the plan's clock; by edge and by UE."""

    round: int
    planned_s: float
    measured_s: float
    edge_planned_s: Mapping[int, float]
    edge_measured_s: Mapping[int, float]
    ue_planned_s: Mapping[int, float]
    ue_measured_s: Mapping[int, float]


@dataclass(kw_only=True)
class DeployedExecutor:
    """Bridges the synchronous round to the cloud's event loop; what it must remember is in the `TrainState`."""

    cloud: Cloud
    loop: LoopThread
    links: LinkModel
    settings: CloudNodeSettings
    outer_lr: float
    staleness_bound: int
    audit: AuditLog | None = None
    timings: list[Timing] = field(default_factory=list)
    figures: dict[int, Any] = field(default_factory=dict)
    on_timing: Callable[[Timing], None] = lambda timing: None
    _last: dict[str, Any] = field(default_factory=dict)

    def prepare(self, state: TrainState) -> None:
        """Make the state's model the current one, before the first edge attaches."""
        self.loop.run(self._publish(state))

    def observe(self, state: TrainState) -> Observation:
        """Wait until the edges that are there have computed; report links, sketches and who is there."""
        began = time.perf_counter()
        self.loop.run(self._publish(state))
        held = self.loop.run(self.cloud.observe())
        spent_s = 0.0 if self._computes_after_order else time.perf_counter() - began
        num_edges = len(state.base_round)
        sketches = np.zeros((num_edges, sketch_width(self.links.config)))
        active = np.zeros(num_edges, dtype=np.bool_)
        base_round, digests = state.base_round.copy(), self._digests(state).copy()
        for edge, one in held.items():
            active[edge], sketches[edge], base_round[edge] = True, one.sketch.values, one.tag.base_round
            digests[edge] = np.frombuffer(one.tag.base, dtype=np.uint8)
        rebased = active & ~state.awaiting & (base_round != state.base_round)
        self._last = {"held": held}
        return Observation(
            links=self._links_of(state.round, held),
            pending=state.pending,
            importance=np.where(active, (sketches**2).sum(axis=1), 0.0),
            clock={_DIGEST: digests},
            sketches=sketches,
            spent_s=spent_s,
            spent_bits=self._sketch_bits(held, state.round),
            spent_j=self._computed_j(held, state.round),
            active=active,
            dropped=rebased,
            base_round=base_round,
        )

    def execute(self, state: TrainState, observation: Observation, plan: Plan) -> Outcome:
        """Send the plan's orders and collect what arrives before its deadline."""
        held: dict[int, Held] = self._last["held"]
        chosen = [edge for edge in np.flatnonzero(plan.scheduled).tolist() if edge in held]
        orders = {edge: self._order(state.round, held[edge], observation.links, plan) for edge in chosen}
        began = time.perf_counter()
        came = self.loop.run(self.cloud.execute(orders, self._deadline_s(plan.round_latency_s, steps=2)))
        measured_s = (time.perf_counter() - began) / self.settings.time_scale
        self._note_timing(state.round, observation.links, plan, came, measured_s)
        self._last |= {"came": came, "before": state.params, "plan": plan}
        return Outcome(
            arrivals=tuple(_arrival(edge, came[edge]) for edge in sorted(came)),
            latency_s=measured_s,
            uplink_bits=sum((len(one.ues) * self.links.ue_bits + self.links.edge_bits for one in came.values()), 0.0),
            joules=self._joules(observation.links, plan, came),
            clock=observation.clock,
            num_lost=sum(int(held[edge].sketch.ues.size) - len(came[edge].ues) for edge in came),
            phases=stretches(self._times(state, observation, measured_s), held, set(orders), came),
        )

    def _times(self, state: TrainState, observation: Observation, measured_s: float) -> RoundTimes:
        links = observation.links
        first_s = np.full(len(state.base_round), np.inf)
        np.minimum.at(first_s, links.edge_of_ue, links.compute_s)
        modelled = dict(enumerate(first_s.tolist())) if self._computes_after_order else {}
        return RoundTimes(
            round=state.round + 1,
            began_s=state.time_s,
            ordered_s=state.time_s + observation.spent_s,
            latency_s=measured_s,
            time_scale=self.settings.time_scale,
            computing_s=modelled,
            ue_bits=self.links.ue_bits,
            edge_bits=self.links.edge_bits,
        )

    @property
    def _computes_after_order(self) -> bool:
        """Whether the time of computing is the model's, and passes at the UEs before they send."""
        return self.settings.paced and not self.links.config.planning.sketches

    def broadcast(self, state: TrainState, edges: BoolArray, shares: Mapping[int, float]) -> TrainState:
        """Write down what was aggregated; send the new model to `edges`, whose updates are spent."""
        vector = as_vector(state.params)
        self._write_audit(state, vector, shares)
        digests = self._digests(state).copy()
        digests[edges] = np.frombuffer(digest_of(vector), dtype=np.uint8)
        after = received(state.but(clock={**state.clock, _DIGEST: digests}), edges)
        self.loop.run(self._publish(after))
        self.loop.run(self.cloud.broadcast(np.flatnonzero(edges).tolist()))
        return after

    def evaluate(self, params: torch.Tensor, round_number: int) -> EvaluationSummary | None:
        """Means over the UEs that reported; None where nobody did."""
        found = self.loop.run(self.cloud.evaluate(as_vector(params), round_number=round_number))
        if not found:
            return None
        self.figures = found
        return summary_of(self.evaluation())

    def evaluation(self) -> Evaluation:
        """The newest figures of every UE; NaN for those that never reported."""
        table = np.full((self.links.config.network.num_ues, COLUMNS), np.nan)
        for ue, row in self.figures.items():
            table[ue] = row
        return Evaluation(*np.ascontiguousarray(table.T))

    async def _publish(self, state: TrainState) -> None:
        self.cloud.publish(as_vector(state.params), round_number=state.round)
        digests, run = self._digests(state), self.cloud.run
        fresh_enough = ~state.awaiting & (state.staleness <= self.staleness_bound) & digests.any(axis=1)
        self.cloud.accept_only(
            {
                edge: Tag(run=run, base_round=int(state.base_round[edge]), base=digests[edge].tobytes())
                for edge in np.flatnonzero(fresh_enough).tolist()
            }
        )

    def _digests(self, state: TrainState) -> NDArray[np.uint8]:
        known = state.clock.get(_DIGEST)
        return np.zeros((len(state.base_round), DIGEST_BYTES), np.uint8) if known is None else known

    def _links_of(self, round_number: int, held: Mapping[int, Held]) -> Links:
        return self.links.links(round_number, *_ues_of(held))

    def _computed_j(self, held: Mapping[int, Held], round_number: int) -> NDArray[np.float64] | None:
        """Joules of the UEs that computed on this round's model, where the experiment plans on sketches."""
        if not self.links.config.planning.sketches:
            return None
        ues, samples = _ues_of(_started(held, round_number))
        joules = np.zeros(self.links.config.network.num_ues)
        joules[ues] = self.links.compute_j(ues, samples)
        return joules

    def _order(self, round_number: int, held: Held, links: Links, plan: Plan) -> tuple[Tag, Any]:
        scale = self.settings.time_scale
        mine = np.isin(links.members, held.sketch.ues)
        edge = int(links.edge_of_ue[mine][0])
        tag = Tag(run=held.tag.run, round=round_number, base_round=held.tag.base_round, base=held.tag.base)
        phase_s = float(plan.edge_phase_s[edge])
        order = pb.Order(
            upload_s=float(plan.edge_upload_s[edge]) * scale,
            deadline_s=self._deadline_s(float(plan.latency_s[edge]), steps=2),
            phase_deadline_s=self._deadline_s(phase_s, steps=1),
            paced=self.settings.paced,
            ue=links.members[mine].tolist(),
            ue_compute_s=(links.compute_s[mine] * scale).tolist(),
            ue_upload_s=(plan.upload_s[mine] * scale).tolist(),
        )
        return tag, order

    def _deadline_s(self, planned_s: float, *, steps: int) -> float:
        timing = self.settings.timing
        return planned_s * self.settings.time_scale * timing.deadline_factor + steps * timing.deadline_slack_s

    def _note_timing(
        self, round_number: int, links: Links, plan: Plan, came: Mapping[int, Delivered], measured_s: float
    ) -> None:
        scale = self.settings.time_scale
        ue_planned_s = dict(zip(links.members.tolist(), (links.compute_s + plan.upload_s).tolist(), strict=True))
        took = {ue: s / scale for one in came.values() for ue, s in zip(one.ues, one.ue_seconds, strict=True)}
        timing = Timing(
            round=round_number + 1,
            planned_s=plan.round_latency_s,
            measured_s=measured_s,
            edge_planned_s={edge: float(plan.latency_s[edge]) for edge in came},
            edge_measured_s={edge: one.seconds / scale for edge, one in came.items()},
            ue_planned_s={ue: ue_planned_s[ue] for ue in took},
            ue_measured_s=took,
        )
        self.cloud.metrics.seconds.observe(measured_s)
        self.timings.append(timing)
        self.on_timing(timing)

    def _sketch_bits(self, held: Mapping[int, Held], round_number: int) -> float:
        """Bits of the sketches about this round's model, on both hops."""
        backhaul = int(self.links.config.network.backhaul)
        sketches = sum(int(one.sketch.ues.size) + backhaul for one in _started(held, round_number).values())
        return float(sketches * sketch_width(self.links.config) * _SKETCH_NUMBER_BITS)

    def _joules(self, links: Links, plan: Plan, came: Mapping[int, Delivered]) -> NDArray[np.float64]:
        """Modelled energy of the UEs that delivered: computing after the order, and sending at the planned power."""
        joules = np.zeros(self.links.config.network.num_ues)
        ues = np.array(sorted(ue for one in came.values() for ue in one.ues), dtype=np.int64)
        at = np.searchsorted(links.members, ues)
        cpu_hz = self.links.cpu_hz()[ues]
        joules[ues] = compute_j(links.compute_s[at], cpu_hz) + transmit_j(plan.ue_power_w[at], plan.upload_s[at])
        return joules

    def _write_audit(self, state: TrainState, after: Vector, shares: Mapping[int, float]) -> None:
        if self.audit is None:
            return
        came: dict[int, Delivered] = self._last["came"]
        parts = [
            Aggregated(
                member=edge,
                base_round=one.base_round,
                weight=one.weight,
                factor=(1.0 + state.round - 1 - one.base_round) ** -self.links.config.training.staleness_discount,
                share=shares[edge],
                update=one.update,
                ues=one.ues,
            )
            for edge, one in sorted(came.items())
        ]
        plan: Plan = self._last["plan"]
        rule = {"name": self.links.config.training.aggregation, "options": {}}
        facts = {"run": self.cloud.run, "round": state.round, "combine": rule}
        seconds = {"planned_s": plan.round_latency_s, "measured_s": self.timings[-1].measured_s}
        rate = plan.step_scale * self.outer_lr
        self.audit.round(as_vector(self._last["before"]), after, parts, outer_lr=rate, **facts, **seconds)


def as_vector(params: torch.Tensor) -> Vector:
    """A flat tensor as an array."""
    return np.ascontiguousarray(params.detach().cpu().numpy())


def _started(held: Mapping[int, Held], round_number: int) -> dict[int, Held]:
    """The edges that computed on this round's model; the others hold what an earlier round has counted."""
    return {edge: one for edge, one in held.items() if one.tag.base_round == round_number}


def _ues_of(held: Mapping[int, Held]) -> tuple[IntArray, IntArray]:
    """The UEs under some edges by their numbers, and the samples of each."""
    nobody: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    ues = np.concatenate([one.sketch.ues for one in held.values()] or nobody)
    samples = np.concatenate([one.sketch.samples for one in held.values()] or nobody)
    order = np.argsort(ues, kind="stable")
    return ues[order], samples[order]


def _arrival(edge: int, came: Delivered) -> EdgeUpdate:
    return EdgeUpdate(
        member=edge,
        base_round=came.base_round,
        update=torch.from_numpy(came.update),
        weight=came.weight,
        importance=came.squared_norm,
    )
