"""Giving large blocks back to the system: an edge with a thousand streams would otherwise keep what once passed by."""

import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h
_LARGE_BYTES = 64 * 1024


def return_large_blocks() -> bool:
    """Let the C library map blocks from 64 kB on, so that freeing one frees its memory; False where it cannot."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
    except (OSError, AttributeError):  # another C library
        return False
