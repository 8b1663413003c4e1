"""The way down: what servers send with, what receivers lack of the current model, and the worst link of each cell.

A multicast goes at the rate of its worst receiver and carries what its most backward receiver lacks: the coded steps
since the model it holds, or the whole model where that is shorter. Nobody who is absent counts.
"""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray

NOBODY = -1
"""Stands for the edge of a UE that is not there."""


@dataclass(frozen=True, kw_only=True)
class Powers:
    """Watts of the downlink: `p_c` of the cloud and `p_e` of an edge on the air, and what receivers draw meanwhile."""

    cloud_w: float = 0.01
    edge_w: float = 0.01
    ue_receive_w: float = 0.01
    edge_receive_w: float = 0.01


def remembered_steps(steps_bits: FloatArray, step_bits: float, model_bits: float) -> FloatArray:
    """The bits of the last steps, the newest last, with one more; those are forgotten that cost more than a model.

    One step is kept at least: that it costs as much as a model says the same as that it is forgotten.
    """
    steps = np.append(steps_bits, min(step_bits, model_bits))
    worth = np.cumsum(steps[::-1])[::-1] < model_bits
    worth[-1] = True
    return steps[worth]


def lacking_bits(held_round: IntArray, this_round: int, steps_bits: FloatArray, model_bits: float) -> FloatArray:
    """Bits that receivers lack who hold the models of `held_round`: all steps since, at most the model itself."""
    back = np.concatenate([[0.0], np.cumsum(steps_bits[::-1])])
    behind = this_round - held_round
    known = back[np.minimum(behind, steps_bits.size)]
    return np.where(behind <= steps_bits.size, np.minimum(known, model_bits), model_bits)


def in_cells(under: IntArray, num_edges: int) -> IntArray:
    """How many UEs are under each edge [K], of UEs [N] each under an edge or `NOBODY`."""
    return np.bincount(under[under >= 0], minlength=num_edges).astype(np.int64)


def least_in_cells(values: FloatArray, under: IntArray, num_edges: int) -> FloatArray:
    """The least value among the UEs that are under each edge [K]; infinite where there is nobody."""
    least = np.full(num_edges, np.inf)
    there = under >= 0
    np.minimum.at(least, under[there], values[there])
    return least


def servers_j(powers: Powers, *, cloud_s: float, cells_s: FloatArray, hears: BoolArray) -> float:
    """Joules of cloud and edges: transmitting on both hops, and receiving by the edges that hear (`cells_s` [K])."""
    received_j = powers.edge_receive_w * cloud_s * float(np.count_nonzero(hears))
    return powers.cloud_w * cloud_s + received_j + powers.edge_w * float(cells_s.sum())
