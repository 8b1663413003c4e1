"""Stands behind the loop's `Executor` for real: what the simulator computes, this asks of edges over the network."""

import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch

from hpfl.arrays import BoolArray
from hpfl.deployment.audit import Aggregated, Uploaded
from hpfl.deployment.books import Books
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.cloud import Cloud
from hpfl.deployment.deliveries import Delivered, Held, arrivals_of, num_anew, num_heard
from hpfl.deployment.measured_timeline import RoundTimes, stretches
from hpfl.deployment.model_steps import steps_of
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.node_parts import LinkModel, sketch_width
from hpfl.deployment.orders import deadline_s, order_of
from hpfl.deployment.round_costs import computed_j, delivered_j, sketch_bits, ues_of, upload_bits
from hpfl.deployment.round_timing import Timing, timing_of
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.update_format import UpdateFormat
from hpfl.deployment.wire import Tag, Vector
from hpfl.learning import DEFAULT_METRICS, BoundMetric, Evaluation, columns_of
from hpfl.network.downlink import NOBODY
from hpfl.planning.codings import Codings
from hpfl.planning.problem import Plan
from hpfl.privacy.ledger import RELEASES
from hpfl.training.broadcasting import Broadcasting
from hpfl.training.cloud_step import Step
from hpfl.training.evaluation_summary import EvaluationSummary, summary_apart
from hpfl.training.held_rounds import HeldRounds
from hpfl.training.loop import received
from hpfl.training.state import Heard, Observation, Outcome, TrainState

T = TypeVar("T")
_ROUNDS_WHOLE, _ROUNDS_TIMED = 16, 10_000
"""Last rounds whose seconds are kept, all of them, and as one ratio: what is kept does not grow with the run."""


@dataclass(frozen=True, kw_only=True)
class EdgesObserved(Observation):
    """What real edges have ready: on which models, and the model they were sent this round."""

    held: Mapping[int, Held]
    model: NamedModel


@dataclass(kw_only=True)
class DeployedExecutor:
    """Bridges the synchronous round to the cloud's event loop; what it must remember is in the `TrainState`.

    `usual_noise` is what each coding of the menu usually adds, and `delays` the rounds by which it delays
    (`planning/codings.py`), where the planner asks. `newcomers` [N] never train (None: everybody does).
    """

    cloud: Cloud
    loop: LoopThread
    links: LinkModel
    updates: UpdateFormat
    usual_noise: tuple[float, ...]
    delays: tuple[float, ...]
    downlink: Broadcasting | None
    settings: CloudNodeSettings
    outer_lr: float
    staleness_bound: int
    uploaded: Uploaded | None = None
    metrics: tuple[BoundMetric, ...] = DEFAULT_METRICS
    newcomers: BoolArray | None = None
    timings: deque[Timing] = field(default_factory=lambda: deque(maxlen=_ROUNDS_WHOLE))
    over_planned: deque[float] = field(default_factory=lambda: deque(maxlen=_ROUNDS_TIMED))
    figures: dict[int, Any] = field(default_factory=dict)
    on_timing: Callable[[Timing], None] = lambda timing: None

    def prepare(self, state: TrainState) -> NamedModel:
        """Make the state's model the current one, before the first edge attaches."""
        model = self._named(state)
        if self.cloud.releases is not None and RELEASES in state.privacy:
            self.cloud.releases.at_least(state.privacy[RELEASES])
        self.loop.run(self._publishing(state, model, _nothing()))
        return model

    def observe(self, state: TrainState) -> EdgesObserved:
        """Wait until the edges that are there have computed; report links, sketches and who is there."""
        began = time.perf_counter()
        model = self._named(state)
        held = self.loop.run(self._publishing(state, model, self.cloud.observe()))
        spent_s = 0.0 if self._computes_after_order else time.perf_counter() - began
        num_edges = len(state.base_round)
        sketches = np.zeros((num_edges, sketch_width(self.links.config)))
        active = np.zeros(num_edges, dtype=np.bool_)
        renewal_s = np.zeros(num_edges)
        base_round = state.base_round.copy()
        for edge, one in held.items():
            active[edge], sketches[edge], base_round[edge] = True, one.sketch.values, one.tag.base_round
            renewal_s[edge] = one.sketch.took_s
        rebased = active & ~state.awaiting & (base_round != state.base_round)
        seen = EdgesObserved(
            held=held,
            model=model,
            links=self.links.links(state.round, *ues_of(held)),
            pending=state.pending,
            importance=np.where(active, (sketches**2).sum(axis=1), 0.0),
            clock={**state.clock, **Books.of(state).holding(held).memory()},
            sketches=sketches,
            spent_s=spent_s,
            spent_bits=sketch_bits(self.links, held, state.round, codings=len(self.usual_noise)),
            spent_j=computed_j(self.links, held, state.round),
            renewal_s=renewal_s if self.links.config.planning.sketches else None,
            codings=self._codings(held, num_edges),
            active=active,
            dropped=rebased,
            base_round=base_round,
            places=self.links.places,
            num_anew=num_anew(held, state.awaiting) if any(self.updates.sending.numbers_kept) else None,
        )
        return seen if self.downlink is None else self._from_above(state, seen, self.downlink)

    def _codings(self, held: Mapping[int, Held], num_edges: int) -> Codings | None:
        """The menu that the planner may choose from, with the noise that edges foretell."""
        if not self.usual_noise:
            return None
        noise = np.zeros((num_edges, len(self.usual_noise)))
        for edge, one in held.items():
            noise[edge] = one.sketch.noise
        ue_bits, edge_bits = zip(*self.links.menu, strict=True)
        return Codings(ue_bits=ue_bits, edge_bits=edge_bits, noise=noise, usual=self.usual_noise, delays=self.delays)

    def _from_above(self, state: TrainState, seen: EdgesObserved, downlink: Broadcasting) -> EdgesObserved:
        """The observation with what is known of the way down: who is there holds what it has computed on."""
        held, under = seen.held, np.full(self.links.config.network.num_ues, NOBODY)
        for edge, one in held.items():
            under[one.sketch.ues] = edge
        edges = {edge: one.tag.base_round for edge, one in held.items()}
        ues = {int(ue): edges[edge] for edge, one in held.items() for ue in one.sketch.ues}
        rounds = HeldRounds.of(state.clock, num_ues=under.size, num_edges=len(state.base_round)).said(ues, edges)
        clock = {**seen.clock, **rounds.written()}
        known = downlink.known(state.but(clock=clock), under, *self.links.seen_from_above(state.round))
        return replace(seen, clock=clock, downlink=known, under=under)

    def execute(self, state: TrainState, observation: Observation, plan: Plan) -> Outcome:
        """Send the plan's orders and collect what arrives before its deadline."""
        assert isinstance(observation, EdgesObserved)  # what `observe` has returned
        held, links = observation.held, observation.links
        books = Books.of(state.but(clock=observation.clock))
        ready = {edge for edge, one in held.items() if one.tag.base_round >= books.edge_counted[edge]}
        chosen = [edge for edge in np.flatnonzero(plan.scheduled).tolist() if edge in ready]  # no update counts twice
        orders = {edge: order_of(self.settings, state.round, held[edge], links, plan, books) for edge in chosen}
        began = time.perf_counter()
        within_s = deadline_s(self.settings, plan.round_latency_s, steps=2)
        came = self.loop.run(self.cloud.execute(orders, within_s, coding=plan.coding))
        if self.cloud.releases is not None:
            self.cloud.releases.ordered({edge: held[edge] for edge in chosen}, came)
        measured_s = (time.perf_counter() - began) / self.settings.time_scale
        scale, rounds = self.settings.time_scale, self.links.config.training.edge_rounds
        ue_bytes = self.updates.ue_spec(plan.coding).nbytes * rounds
        self._note(timing_of(state.round + 1, links, plan, came, measured_s=measured_s, scale=scale, ue_bytes=ue_bytes))
        self.uploaded = self._uploaded(state, observation.model, plan, came, measured_s)
        return Outcome(
            arrivals=arrivals_of(came, self.updates.counted),
            latency_s=measured_s,
            uplink_bits=upload_bits(self.links, came, plan.coding),
            joules=delivered_j(self.links, links, plan, came),
            clock={**observation.clock, **books.taking(came).memory()},
            num_lost=sum(int(held[edge].sketch.ues.size) - len(came[edge].ues) for edge in came),
            phases=stretches(self._times(state, observation, plan, measured_s), held, set(orders), came),
        )

    def _times(self, state: TrainState, observation: Observation, plan: Plan, measured_s: float) -> RoundTimes:
        links, paced = observation.links, self.settings.paced
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
            switch_s={} if plan.switch_s is None or not paced else dict(enumerate(plan.switch_s.tolist())),
            ue_bits=self.links.menu[plan.coding].ue,
            edge_bits=self.links.menu[plan.coding].edge,
        )

    @property
    def _computes_after_order(self) -> bool:
        """Whether the time of computing is the model's, and passes at the UEs before they send."""
        return self.settings.paced and not self.links.config.planning.sketches

    def broadcast(self, state: TrainState, edges: BoolArray, observation: Observation, step: Step) -> Heard:
        """Send the new model to `edges`, whose updates are spent; the step to it to those that hold the one before."""
        model = self._named(state)
        self.uploaded = replace(self._taken, step=step.sent)
        told = Books.of(state).told(edges, model.tag.base)
        state = state.but(clock={**state.clock, **told.memory()})
        heard = Heard(state=received(state, edges))
        if self.downlink is not None:
            heard = self.downlink.told(state, edges, observation, step_bits=step.bits)
        wait_s = heard.seconds * self.settings.time_scale if self.settings.paced else 0.0
        steps = steps_of(self._taken, model)
        sent = self.cloud.broadcast(np.flatnonzero(edges).tolist(), steps, after_s=wait_s)
        self.loop.run(self._publishing(heard.state, model, sent))
        if (counted := self.cloud.releases) is None:
            return heard
        return replace(heard, state=heard.state.but(privacy={RELEASES: counted.counts}))

    @property
    def _taken(self) -> Uploaded:
        assert self.uploaded is not None  # `execute` comes before
        return self.uploaded

    def evaluate(self, params: torch.Tensor, round_number: int) -> EvaluationSummary | None:
        """Means over the UEs that reported; None where nobody did."""
        model = self.cloud.named(as_vector(params), round_number=round_number)
        found = self.loop.run(self.cloud.evaluate(model))
        if not found:
            return None
        self.figures = found
        return summary_apart(self.evaluation(), self.newcomers, self.metrics)

    def evaluation(self) -> Evaluation:
        """The newest figures of every UE; NaN for those that never reported."""
        columns = columns_of(self.metrics)
        table = np.full((self.links.config.network.num_ues, len(columns)), np.nan)
        for ue, row in self.figures.items():
            table[ue] = row
        return Evaluation(dict(zip(columns, np.ascontiguousarray(table.T), strict=True)))

    def _named(self, state: TrainState) -> NamedModel:
        return self.cloud.named(as_vector(state.params), round_number=state.round)

    async def _publishing(self, state: TrainState, model: NamedModel, then: Coroutine[Any, Any, T]) -> T:
        """Make a model the current one; updates on the model in an edge's books count too while they are fresh."""
        digests, run = Books.of(state).digest, self.cloud.run
        fresh_enough = ~state.awaiting & (state.staleness <= self.staleness_bound) & digests.any(axis=1)
        self.cloud.publish(model)
        self.cloud.accept_only(
            {
                edge: Tag(run=run, base_round=int(state.base_round[edge]), base=digests[edge].tobytes())
                for edge in np.flatnonzero(fresh_enough).tolist()
            }
        )
        return await then  # in the same step over to the event loop

    def _note(self, timing: Timing) -> None:
        self.cloud.metrics.seconds.observe(timing.measured_s)
        self.timings.append(timing)
        if timing.planned_s > 0:
            self.over_planned.append(timing.measured_s / timing.planned_s)
        self.on_timing(timing)

    def _uploaded(
        self, state: TrainState, before: NamedModel, plan: Plan, came: Mapping[int, Delivered], measured_s: float
    ) -> Uploaded:
        training = self.links.config.training
        parts = [
            Aggregated(
                member=edge,
                base_round=one.base_round,
                weight=one.weight,
                factor=(1.0 + state.round - one.base_round) ** -training.staleness_discount,
                update=one.update,
                ues=one.ues,
                message=one.message,
            )
            for edge, one in sorted(came.items())
        ]
        return Uploaded(
            before=before,
            parts=parts,
            outer_lr=plan.step_scale * self.outer_lr,
            combine={"name": training.combine, "options": training.combine_options},
            planned_s=plan.round_latency_s,
            measured_s=measured_s,
            coding=plan.coding,
            counted=self.updates.counted,
            heard=num_heard(came),
        )


def as_vector(params: torch.Tensor) -> Vector:
    """A flat tensor as an array."""
    return np.ascontiguousarray(params.detach().cpu().numpy())


async def _nothing() -> None:
    """What follows where a model is published and nothing is sent yet."""
