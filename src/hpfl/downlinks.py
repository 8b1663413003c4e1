"""What a configuration means for the way down: how the cloud's step travels, and what a broadcast takes."""

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.assembly import ue_path
from hpfl.config import Experiment
from hpfl.learning.method import num_travelling
from hpfl.learning.sending import Sending
from hpfl.network.downlink import Powers
from hpfl.rng import Streams
from hpfl.training.broadcasting import Broadcasting
from hpfl.training.combine import COMBINES
from hpfl.training.step_coding import StepCoding
from hpfl.units import dbm_to_w


def step_coding(config: Experiment, sending: Sending) -> StepCoding | None:
    """How the cloud's step travels down; None: as the model, where downlinks are free or no codec is chosen.

    Messages of edges can be forwarded where the cloud takes their mean, and where they are messages at all.
    """
    if config.network.downlink == "free" or all(one.is_identity for one in sending.codings):
        return None
    streams = COMBINES.part(config.training.combine).traits["streams"]
    return StepCoding(
        codings=sending.codings,
        bits_per_number=config.network.bits_per_parameter,
        num_travelling=num_travelling(sending.method, sending.spec),
        forwards=bool(streams and config.network.backhaul),
        streams=Streams(config.training.seed),
        travelling=sending.travelling,
    )


def broadcasting(
    config: Experiment, sending: Sending, cpu_hz: FloatArray, coding: StepCoding | None
) -> Broadcasting | None:
    """The way down of a configuration that charges it (None: it is free); a model is what travels of it."""
    network = config.network
    if network.downlink == "free":
        return None
    model_bits = float(num_travelling(sending.method, sending.spec) * network.bits_per_parameter)
    return Broadcasting(
        powers=Powers(
            cloud_w=network.cloud_power_w,
            edge_w=network.edge_down_power_w,
            ue_receive_w=network.ue_receive_power_w,
            edge_receive_w=network.edge_receive_power_w,
        ),
        noise_w_per_hz=dbm_to_w(network.noise_dbm_per_hz),
        bandwidth_hz=network.bandwidth_hz,
        model_bits=model_bits,
        step_bits=(model_bits,) if coding is None else coding.step_bits,
        message_bits=(np.inf,) if coding is None else coding.message_bits,
        cpu_hz=cpu_hz,
        streams=Streams(config.training.seed),
        again_bits=(config.training.edge_rounds - 1) * model_bits,
        backhaul=network.backhaul,
        ue_failure=config.life.ue_failure,
        reuse=network.reuse,
        cross_path=ue_path(config),
    )
