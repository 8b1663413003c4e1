"""Conversions between the units papers print and the SI units the code computes in."""

BITS_PER_BYTE = 8


def db_to_linear(value_db: float) -> float:
    """A power ratio in decibels as a plain ratio, `10^(dB/10)`."""
    return float(10.0 ** (value_db / 10.0))


def dbm_to_w(value_dbm: float) -> float:
    """Power in dBm as watts; a density in dBm/Hz becomes W/Hz alike."""
    return db_to_linear(value_dbm) * 1e-3
