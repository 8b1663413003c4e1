"""What a real round costs as modelled: bits on the air and joules of the UEs."""

from collections.abc import Mapping

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.deployment.deliveries import Delivered, Held
from hpfl.deployment.node_parts import LinkModel, sketch_width
from hpfl.network.energy import compute_j, transmit_j
from hpfl.network.links import Links
from hpfl.planning.problem import Plan

_SKETCH_NUMBER_BITS = 64


def sketch_bits(model: LinkModel, held: Mapping[int, Held], round_number: int, *, codings: int) -> float:
    """Bits of the sketches about this round's model, on both hops, each with the noise of so many codings."""
    backhaul = int(model.config.network.backhaul)
    sketches = sum(int(one.sketch.ues.size) + backhaul for one in _started(held, round_number).values())
    return float(sketches * (sketch_width(model.config) + codings) * _SKETCH_NUMBER_BITS)


def upload_bits(model: LinkModel, came: Mapping[int, Delivered], coding: int) -> float:
    """Bits of the updates that were delivered, on both hops, by an entry of the menu of codings."""
    bits = model.menu[coding]
    return sum((len(one.ues) * bits.ue + bits.edge for one in came.values()), 0.0)


def computed_j(model: LinkModel, held: Mapping[int, Held], round_number: int) -> FloatArray | None:
    """Joules of the UEs that computed on this round's model, where the experiment plans on sketches."""
    if not model.config.planning.sketches:
        return None
    ues, samples = ues_of(_started(held, round_number))
    joules = np.zeros(model.config.network.num_ues)
    joules[ues] = model.compute_j(ues, samples)
    return joules


def delivered_j(model: LinkModel, links: Links, plan: Plan, came: Mapping[int, Delivered]) -> FloatArray:
    """Joules of the UEs that delivered: computing after the order, and sending at the planned power."""
    joules = np.zeros(model.config.network.num_ues)
    ues = np.array(sorted(ue for one in came.values() for ue in one.ues), dtype=np.int64)
    at = np.searchsorted(links.members, ues)
    cpu_hz = model.cpu_hz()[ues]
    joules[ues] = compute_j(links.compute_s[at], cpu_hz) + transmit_j(plan.ue_power_w[at], plan.upload_s[at])
    return joules


def ues_of(held: Mapping[int, Held]) -> tuple[IntArray, IntArray]:
    """The UEs under some edges by their numbers, and the samples of each."""
    nobody: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    ues = np.concatenate([one.sketch.ues for one in held.values()] or nobody)
    samples = np.concatenate([one.sketch.samples for one in held.values()] or nobody)
    order = np.argsort(ues, kind="stable")
    return ues[order], samples[order]


def _started(held: Mapping[int, Held], round_number: int) -> dict[int, Held]:
    """The edges that computed on this round's model; the others hold what an earlier round has counted."""
    return {edge: one for edge, one in held.items() if one.tag.base_round == round_number}
