"""What a round costs a UE in joules: switching its CPU and feeding its transmitter."""

from hpfl.arrays import FloatArray

EFFECTIVE_CAPACITANCE = 1e-28
"""kappa: joules per cycle per Hz^2 of a mobile CPU, the value usual in the mobile-edge literature."""


def compute_j(
    compute_s: FloatArray, cpu_hz: FloatArray, *, effective_capacitance: float = EFFECTIVE_CAPACITANCE
) -> FloatArray:
    """`kappa c sample_bits D delta^2`, which is `kappa delta^3` watts for the seconds of computing."""
    return effective_capacitance * cpu_hz**3 * compute_s


def transmit_j(power_w: FloatArray, upload_s: FloatArray) -> FloatArray:
    """Transmit power times air time."""
    return power_w * upload_s
