"""The updates of edges whose rounds start or lose UEs, and the models that edges still hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import Computes
from hpfl.rng import Streams
from hpfl.training.edge_round import EdgeSettings, edge_updates, member_weights

Memory = Mapping[str, NDArray[Any]]

MODELS, MODEL_ROUNDS = "held/models", "held/rounds"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Every edge's update [K, P] and its squared norm."""

    update: torch.Tensor
    importance: FloatArray


@dataclass(frozen=True, kw_only=True)
class Learners:
    """The UEs as learners: from participants and a model to the edges' updates."""

    cohort: Computes
    settings: EdgeSettings
    streams: Streams
    num_samples: IntArray

    def renewed(
        self,
        pending: Pending,
        edges: BoolArray,
        params: torch.Tensor,
        *,
        members: IntArray,
        edge_of: IntArray,
        base_round: int,
    ) -> Pending:
        """The updates with those of `edges` computed from `params`, the model of `base_round`."""
        if not edges.any():
            return pending
        numbers = np.flatnonzero(edges)
        here = edges[edge_of]
        members, edge_of = members[here], edge_of[here]
        result = edge_updates(
            self.cohort,
            params,
            members=members,
            edge_of_member=np.searchsorted(numbers, edge_of),
            weights=member_weights(self.num_samples[members], self.settings),
            base_round=base_round,
            settings=self.settings,
            streams=self.streams,
        )
        rows = torch.as_tensor(numbers, device=pending.update.device)
        importance = pending.importance.copy()
        importance[numbers] = result.importance
        return Pending(update=pending.update.index_copy(0, rows, result.update), importance=importance)

    def without_lost(
        self,
        pending: Pending,
        edges: BoolArray,
        memory: Memory,
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
            pending = self.renewed(pending, on_it, params, members=members, edge_of=edge_of, base_round=held)
        return pending

    def edge_weights(self, members: IntArray, edge_of: IntArray, num_edges: int) -> FloatArray:
        """Weights of the edges in the cloud's mean: all alike, or by their participants' samples."""
        if self.settings.weighting == "uniform":
            return np.ones(num_edges)
        weights = member_weights(self.num_samples[members], self.settings)
        return np.asarray(np.bincount(edge_of, weights=weights, minlength=num_edges), dtype=np.float64)


def held_models(memory: Memory, params: torch.Tensor, *, this_round: int, base_round: IntArray) -> Memory:
    """The models that some edge holds, each once, with this round's; a UE's loss makes its edge compute again."""
    rounds = memory[MODEL_ROUNDS].tolist() if MODELS in memory else []
    models = {number: memory[MODELS][row] for row, number in enumerate(rounds)}
    models[this_round] = params.detach().cpu().numpy()
    kept = sorted(set(models) & set(base_round.tolist()))
    return {
        MODEL_ROUNDS: np.array(kept, dtype=np.int64),
        MODELS: np.stack([models[number] for number in kept]) if kept else np.zeros((0, params.numel())),
    }
