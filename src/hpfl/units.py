"""Conversions between the units papers print and the SI units the code computes in."""

import math

BITS_PER_BYTE = 8


def db_to_linear(value_db: float) -> float:
    """A power ratio in decibels as a plain ratio, `10^(dB/10)`."""
    return float(10.0 ** (value_db / 10.0))


def linear_to_db(ratio_linear: float) -> float:
    """A plain power ratio in decibels."""
    return 10.0 * math.log10(ratio_linear)


def dbm_to_w(value_dbm: float) -> float:
    """Power in dBm as watts; a density in dBm/Hz becomes W/Hz alike."""
    return db_to_linear(value_dbm) * 1e-3


def w_to_dbm(power_w: float) -> float:
    """Watts as dBm."""
    return linear_to_db(power_w / 1e-3)
