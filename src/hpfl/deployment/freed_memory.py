"""Giving large blocks back to the system: an edge with a thousand streams would otherwise keep what once passed by."""

import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h
_M_ARENA_MAX = -8
_LARGE_BYTES = 64 * 1024


def return_large_blocks() -> bool:
    """Let the C library map blocks from 64 kB on, so that freeing one frees its memory, and keep one heap instead of
    one per thread; False where it cannot."""
    try:
        library = ctypes.CDLL(None)
        return bool(library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) and library.mallopt(_M_ARENA_MAX, 1))
    except (OSError, AttributeError):  # another C library
        return False
