"""The updates of edges whose rounds start or lose UEs, and the models that edges still hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import Computes, Draws, Uplink
from hpfl.learning.coding import BY_EDGE, UNCODED, Coding, Travelling
from hpfl.learning.kept import rows_at
from hpfl.privacy.ledger import releases_of
from hpfl.rng import Streams
from hpfl.simulation.hostility import Hostility
from hpfl.training.clock import ClockMemory
from hpfl.training.counted import Counted
from hpfl.training.edge_round import (
    EdgeResult,
    EdgeSettings,
    Participants,
    edge_updates,
    member_weights,
    squared_norms,
)
from hpfl.training.foretold import Foretold
from hpfl.training.remembered import CODEC, EDGE_CODEC, Remembered

MODELS, MODEL_ROUNDS, CODING_NOISE = "held/models", "held/rounds", "held/coding_noise"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Every edge's update [K, P] and its squared norm, and what UEs keep and rules remember since it was computed.

    `noise` [K, C] is what each coding of the menu is expected to add to it, where that is foretold. `num_scaled` UEs
    scaled their update down when it was computed last.
    """

    update: torch.Tensor
    importance: FloatArray
    remembered: Remembered = field(default_factory=Remembered)
    noise: FloatArray | None = None
    num_scaled: int = 0


@dataclass(frozen=True, kw_only=True)
class Learners:
    """The UEs as learners: from participants and a model to the edges' updates.

    `loses_ues` says whether an edge may have to compute again without some of its UEs. `codings` is the menu of chains
    of codecs for uploads: of UEs, and of edges where they have a `backhaul`. `travelling` says what is coded, and
    `foretold` what coding will add (None: nobody asks), `hostility` which edges are hostile (None: nobody is),
    `counted` what of an update counts by the share of the UEs that were heard (None: nothing does). `together` is how
    many UEs at most compute in one call, whole edges at a time (None: all).
    """

    cohort: Computes
    settings: EdgeSettings
    streams: Streams
    num_samples: IntArray
    loses_ues: bool = False
    codings: tuple[Uplink, ...] = ()
    travelling: Travelling = field(default_factory=Travelling)
    backhaul: bool = True
    foretold: Foretold | None = None
    hostility: Hostility | None = None
    counted: Counted | None = None
    together: int | None = None

    @property
    def computes_again(self) -> bool:
        """Whether edges may compute again on the models they hold: without lost UEs, or as they upload."""
        return self.loses_ues or bool(self.codings)

    def renewed(
        self,
        pending: Pending,
        edges: BoolArray,
        params: torch.Tensor,
        *,
        members: IntArray,
        edge_of: IntArray,
        base_round: int,
        again: bool = False,
    ) -> Pending:
        """The updates with those of `edges` computed from `params`, the model of `base_round`.

        Where that is done `again`, UEs and rules begin with what they had before they did it first.
        """
        for numbers in self._stretches(edges, edge_of):
            pending = self._renewed(
                pending, numbers, params, members=members, edge_of=edge_of, base_round=base_round, again=again
            )
        return pending

    def _stretches(self, edges: BoolArray, edge_of: IntArray) -> Iterator[IntArray]:
        """The numbers of `edges`, as many at a time as have UEs that may compute together; one at least."""
        numbers = np.flatnonzero(edges)
        if self.together is None:
            yield from [numbers] if numbers.size else []
            return
        ends = np.cumsum(np.bincount(edge_of, minlength=edges.size)[numbers])
        while numbers.size:
            count = max(int(np.searchsorted(ends, self.together, side="right")), 1)
            yield numbers[:count]
            numbers, ends = numbers[count:], ends[count:] - ends[count - 1]

    def _renewed(
        self,
        pending: Pending,
        numbers: IntArray,
        params: torch.Tensor,
        *,
        members: IntArray,
        edge_of: IntArray,
        base_round: int,
        again: bool,
    ) -> Pending:
        """The updates with those of some edges, by their numbers."""
        coding = UNCODED if self.foretold is None else Coding(foretold=self.foretold.asked)
        who, result = self._computed(
            pending.remembered, numbers, params, members, edge_of, base_round=base_round, again=again, coding=coding
        )
        rows = torch.as_tensor(numbers, device=pending.update.device)
        importance, all_new = pending.importance.copy(), len(numbers) == len(pending.update)
        update = result.update if all_new else pending.update.index_copy(0, rows, result.update)
        importance[numbers] = result.importance
        if self.hostility is not None:
            update = self.hostility.crafted_edges(update, numbers, base_round)
            importance[numbers] = squared_norms(update[rows])
        return Pending(
            update=update,
            importance=importance,
            remembered=self._known(pending.remembered, numbers, who, result, again=again),
            noise=self._noise(pending, numbers, who, result, base_round),
            num_scaled=pending.num_scaled + result.num_scaled,
        )

    def _noise(
        self, pending: Pending, numbers: IntArray, who: Participants, result: EdgeResult, base_round: int
    ) -> FloatArray | None:
        """The noise of all edges, with that of some which have computed."""
        if self.foretold is None or result.noise is None:
            return pending.noise
        errors = pending.remembered.rows.get(EDGE_CODEC)
        own = None if errors is None else rows_at(errors, numbers)
        found = self.foretold.noise(who, result, own, edges=numbers, base_round=base_round)
        noise = np.zeros((len(pending.importance), found.shape[1])) if pending.noise is None else pending.noise.copy()
        noise[numbers] = found
        return noise

    def without_lost(
        self,
        pending: Pending,
        edges: BoolArray,
        memory: ClockMemory,
        *,
        members: IntArray,
        edge_of: IntArray,
        base_round: IntArray,
    ) -> Pending:
        """The updates with those of `edges`, each on the model it holds, made of the UEs it has left."""
        for held in np.unique(base_round[edges]).tolist():
            on_it = edges & (base_round == held)
            params = _held(memory, held, pending.update.device)
            pending = self.renewed(
                pending, on_it, params, members=members, edge_of=edge_of, base_round=held, again=True
            )
        return pending

    def uploaded(
        self,
        pending: Pending,
        edges: BoolArray,
        memory: ClockMemory,
        *,
        members: IntArray,
        edge_of: IntArray,
        base_round: IntArray,
        coding: int = 0,
    ) -> Pending:
        """What arrives of `edges` with the menu's entry `coding`, and what those keep who coded it.

        Each UE computes again on the model its edge holds and codes its update; the edge codes the mean of what came.
        Importance stays that of the updates themselves.
        """
        chain = self.codings[coding] if self.codings else UNCODED.chain
        if chain.is_identity:
            return pending
        calls = [
            (held, numbers)
            for held in np.unique(base_round[edges]).tolist()
            for numbers in self._stretches(edges & (base_round == held), edge_of)
        ]
        for held, numbers in calls:
            params = _held(memory, held, pending.update.device)
            who, result = self._computed(
                pending.remembered, numbers, params, members, edge_of, base_round=held, again=True, coding=Coding(chain)
            )
            known = self._known(pending.remembered, numbers, who, result, again=True)
            known = known.uploaded(CODEC, who.ues, result.kept.codec)
            means = self._with_crafted(result.update, pending.update, numbers, held)
            pending = self._sent_on(replace(pending, remembered=known), numbers, means, chain, held)
        return pending

    def _with_crafted(
        self, means: torch.Tensor, update: torch.Tensor, edges: IntArray, base_round: int
    ) -> torch.Tensor:
        """The means [E, P] of some edges, those of hostile ones as they were crafted."""
        if self.hostility is None or not self.hostility.active(base_round):
            return means
        at = np.flatnonzero(self.hostility.edges[edges])
        return means.index_copy(0, torch.as_tensor(at, device=means.device), update[torch.as_tensor(edges[at])])

    def _sent_on(
        self, pending: Pending, numbers: IntArray, means: torch.Tensor, chain: Uplink, base_round: int
    ) -> Pending:
        """With what the cloud receives of some edges' means [E, P]: coded again, where there is a backhaul."""
        known, rows = pending.remembered, torch.as_tensor(numbers, device=means.device)
        if self.backhaul:
            draws = Draws(self.streams, base_round, numbers, means.device, BY_EDGE)
            errors = rows_at(known.rows[EDGE_CODEC], numbers) if EDGE_CODEC in known.rows else None
            means, errors = self.travelling.coded(chain, means, errors, draws)
            known = known.uploaded(EDGE_CODEC, numbers, errors)
        return replace(pending, update=pending.update.index_copy(0, rows, means), remembered=known)

    def _computed(
        self,
        known: Remembered,
        numbers: IntArray,
        params: torch.Tensor,
        members: IntArray,
        edge_of: IntArray,
        *,
        base_round: int,
        again: bool,
        coding: Coding = UNCODED,
    ) -> tuple[Participants, EdgeResult]:
        """Those under some edges, and what these make of their updates."""
        here = np.isin(edge_of, numbers)
        members, edge_of = members[here], edge_of[here]
        who = Participants(
            ues=members,
            edge_of=np.searchsorted(numbers, edge_of),
            weights=member_weights(self.num_samples[members], self.settings),
            kept=known.of_ues(members, again=again, codec=coding.asks),
            rules=known.of_edges(numbers, again=again),
            numbers=numbers,
        )
        return who, edge_updates(
            self.cohort,
            params,
            who,
            base_round=base_round,
            settings=self.settings,
            streams=self.streams,
            coding=coding,
        )

    def _known(
        self, known: Remembered, numbers: IntArray, who: Participants, result: EdgeResult, *, again: bool
    ) -> Remembered:
        """What is remembered once some edges' UEs have computed."""
        before = self.computes_again
        known = known.computed(who.ues, result.kept, again=again, before=before)
        return known.combined(numbers, result.rules, again=again, before=before)

    def releases(self, members: IntArray, edge_of: IntArray, starts: BoolArray, num_ues: int) -> IntArray | None:
        """How many noisy sums of each UE [N] the edges that start make now; None: nothing is noised."""
        if self.settings.private is None:
            return None
        return releases_of(members[starts[edge_of]], self.settings.edge_rounds, num_ues)

    def edge_weights(self, members: IntArray, edge_of: IntArray, num_edges: int) -> FloatArray:
        """Weights of the edges in the cloud's mean: all alike, or by their participants' samples."""
        if self.settings.weighting == "uniform":
            return np.ones(num_edges)
        weights = member_weights(self.num_samples[members], self.settings)
        return np.asarray(np.bincount(edge_of, weights=weights, minlength=num_edges), dtype=np.float64)


def held_models(memory: ClockMemory, params: torch.Tensor, *, this_round: int, base_round: IntArray) -> ClockMemory:
    """The models that some edge holds, each once, with this round's; a UE's loss makes its edge compute again."""
    rounds = memory[MODEL_ROUNDS].tolist() if MODELS in memory else []
    models = {number: memory[MODELS][row] for row, number in enumerate(rounds)}
    models[this_round] = params.detach().cpu().numpy()
    kept = sorted(set(models) & set(base_round.tolist()))
    return {
        MODEL_ROUNDS: np.array(kept, dtype=np.int64),
        MODELS: np.stack([models[number] for number in kept]) if kept else np.zeros((0, params.numel())),
    }


def _held(memory: ClockMemory, base_round: int, device: torch.device) -> torch.Tensor:
    """The model of a round that some edge holds."""
    row = int(np.flatnonzero(memory[MODEL_ROUNDS] == base_round)[0])
    return torch.from_numpy(memory[MODELS][row]).to(device)
