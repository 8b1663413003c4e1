"""Every link of a round as arrays: K backhauls (edge to cloud) and N access links (UE to edge), UEs sorted by edge."""

from dataclasses import dataclass

from hpfl.arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Links:
    """What the cloud knows of the radio and the work still to do when it plans a round.

    `edge_*` arrays have one entry per edge, the others one per participating UE; `members` are the UEs' own numbers.
    """

    edge_gain: FloatArray
    edge_power_w: FloatArray
    edge_noise_w_per_hz: FloatArray
    edge_bits: FloatArray
    members: IntArray
    edge_of_ue: IntArray
    ue_gain: FloatArray
    ue_power_w: FloatArray
    ue_noise_w_per_hz: FloatArray
    ue_bits: FloatArray
    compute_s: FloatArray
    ue_energy_j: FloatArray | None = None
