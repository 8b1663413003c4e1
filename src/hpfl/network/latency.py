"""How long things take: rates, uploads and local iterations (paper, sections 3.1 and 3.2)."""

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray


def rate_bps(bandwidth_hz: FloatArray, snr_hz: FloatArray) -> FloatArray:
    """Shannon rate `b log2(1 + s / b)` in bit/s, with `s = p h / N_0` in Hz; 0 Hz carries nothing."""
    safe_hz = np.where(bandwidth_hz > 0, bandwidth_hz, 1.0)
    rate = safe_hz * np.log1p(snr_hz / safe_hz) / np.log(2.0)
    return np.where(bandwidth_hz > 0, rate, 0.0)


def upload_s(bits: FloatArray, bandwidth_hz: FloatArray, snr_hz: FloatArray) -> FloatArray:
    """Seconds to send `bits`: none for nothing, forever without bandwidth."""
    rate = rate_bps(bandwidth_hz, snr_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bits > 0, bits / rate, 0.0)


def compute_s(
    num_samples: NDArray[np.floating] | IntArray,
    *,
    cycles_per_bit: FloatArray,
    sample_bits: float,
    cpu_hz: FloatArray,
) -> FloatArray:
    """Seconds of local training, `c * sample_bits * D / delta`; `num_samples` counts every sample it touches."""
    return cycles_per_bit * sample_bits * num_samples / cpu_hz
