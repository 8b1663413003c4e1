"""Freed memory that stays with the process: large tensors come and go every round, and the system's pages cost time.

glibc gives blocks of 32 MB and more back to the system when they are freed, and takes them anew, page by page, when the
next is wanted. A process of ours that computes may keep what it has freed, up to 2 GB, for what comes next.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of malloc.h
_MOST_KEPT = 2**31 - 1  # bytes: the largest that can be said


def keep_freed_memory() -> bool:
    """Have this process keep what it frees; whether that can be said here. For processes of our own alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _MOST_KEPT) and mallopt(_MMAP_MAX, 0))
