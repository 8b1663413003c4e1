"""What edges do in a round: let their UEs take local steps, average, and repeat `edge_rounds` times."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning import Computes
from hpfl.rng import Streams

_MOST_EDGE_ROUNDS = 1 << 20  # room for edge rounds inside the key of a cloud round's draws


@dataclass(frozen=True, kw_only=True)
class EdgeSettings:
    """The constants of an edge round (paper, section 3.2)."""

    outer_lr: float
    edge_rounds: int = 1
    weighting: Literal["uniform", "samples"] = "uniform"


@dataclass(frozen=True)
class EdgeResult:
    """Updates `u_k` [E, P] of the edges that computed, and their squared norms."""

    update: torch.Tensor
    importance: FloatArray


def draw_key(base_round: int, edge_round: int) -> int:
    """The key of a UE's draws in one edge round on the model of `base_round`; a deployed UE uses the same."""
    return base_round * _MOST_EDGE_ROUNDS + edge_round


def member_weights(num_samples: IntArray, settings: EdgeSettings) -> FloatArray:
    """Weights of members in a mean: all alike, or by their samples."""
    counts = np.ones(len(num_samples)) if settings.weighting == "uniform" else num_samples
    return np.asarray(counts, dtype=np.float64)


def edge_updates(
    cohort: Computes,
    params: torch.Tensor,
    *,
    members: IntArray,
    edge_of_member: IntArray,
    weights: FloatArray,
    base_round: int,
    settings: EdgeSettings,
    streams: Streams,
) -> EdgeResult:
    """`u_k = (w_v - edge model) / beta` of the edges 0..E-1 in `edge_of_member`, all starting at `params`."""
    num_edges = int(edge_of_member.max()) + 1
    total: torch.Tensor | None = None
    start = params
    for edge_round in range(settings.edge_rounds):
        result = cohort.updates(
            start,
            ues=members,
            groups=edge_of_member,
            num_groups=num_edges,
            weights=weights,
            streams=streams,
            key=draw_key(base_round, edge_round),
        )
        if settings.edge_rounds == 1:
            return EdgeResult(result.update, result.importance)
        total = result.update if total is None else total + result.update
        start = params - settings.outer_lr * total
    assert total is not None
    return EdgeResult(total, (total.to(torch.float64) ** 2).sum(dim=1).cpu().numpy())
