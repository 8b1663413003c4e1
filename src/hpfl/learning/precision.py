"""Which arithmetic a GPU may use: exact float32 that repeats bit by bit, or faster TensorFloat-32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def repeatable(*, tf32: bool = False) -> Iterator[None]:
    """Deterministic convolutions, and TF32 only where it was asked for; the settings before are put back."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = tf32
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32):
            yield
    finally:
        matmul.allow_tf32 = before
