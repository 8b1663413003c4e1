"""One heap for all threads: what a thousand streams have let go of is used again, and not kept once for each thread."""

import ctypes

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> bool:
    """Let the C library keep one heap instead of one per thread; False where it cannot.

    Blocks the size of an update come from it too: mapping each anew would cost more than everything done with it.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (OSError, AttributeError):  # another C library
        return False
