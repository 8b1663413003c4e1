"""The updates of edges whose rounds start or lose UEs, and the models that edges still hold."""

from dataclasses import dataclass, field

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import Computes
from hpfl.rng import Streams
from hpfl.training.clock import ClockMemory
from hpfl.training.edge_round import EdgeSettings, Participants, edge_updates, member_weights
from hpfl.training.remembered import Remembered

MODELS, MODEL_ROUNDS = "held/models", "held/rounds"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Every edge's update [K, P] and its squared norm, and what UEs keep and rules remember since it was computed."""

    update: torch.Tensor
    importance: FloatArray
    remembered: Remembered = field(default_factory=Remembered)


@dataclass(frozen=True, kw_only=True)
class Learners:
    """The UEs as learners: from participants and a model to the edges' updates.

    `loses_ues` says whether an edge may have to compute again without some of its UEs.
    """

    cohort: Computes
    settings: EdgeSettings
    streams: Streams
    num_samples: IntArray
    loses_ues: bool = False

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
        if not edges.any():
            return pending
        numbers = np.flatnonzero(edges)
        here = edges[edge_of]
        members, edge_of = members[here], edge_of[here]
        known = pending.remembered
        who = Participants(
            ues=members,
            edge_of=np.searchsorted(numbers, edge_of),
            weights=member_weights(self.num_samples[members], self.settings),
            kept=known.of_ues(members, again=again),
            rules=known.of_edges(numbers, again=again),
        )
        result = edge_updates(
            self.cohort, params, who, base_round=base_round, settings=self.settings, streams=self.streams
        )
        rows = torch.as_tensor(numbers, device=pending.update.device)
        importance = pending.importance.copy()
        importance[numbers] = result.importance
        known = known.computed(members, result.kept, again=again, before=self.loses_ues)
        return Pending(
            update=pending.update.index_copy(0, rows, result.update),
            importance=importance,
            remembered=known.combined(numbers, result.rules, again=again, before=self.loses_ues),
        )

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
            row = int(np.flatnonzero(memory[MODEL_ROUNDS] == held)[0])
            params = torch.from_numpy(memory[MODELS][row]).to(pending.update.device)
            on_it = edges & (base_round == held)
            pending = self.renewed(
                pending, on_it, params, members=members, edge_of=edge_of, base_round=held, again=True
            )
        return pending

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
