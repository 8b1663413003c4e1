"""Masks: keystreams of AES-256 in counter mode, read as words and summed, a stretch of words at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

MaskedWords = NDArray[np.unsignedinteger[Any]]

STRETCH_BYTES = 2**18
"""So much of a sum and of a keystream stay in a processor's nearest memories."""

_START = bytes(16)  # each key makes one keystream only


def word_type(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds words of so many bits; sums wrap in it as they do modulo `2**bits`."""
    return np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size))


def add_masks(total: MaskedWords, plus: Sequence[bytes], minus: Sequence[bytes]) -> None:
    """Add the masks of some keys to words, and subtract those of others, in place and modulo the type's range."""
    stretch = STRETCH_BYTES // total.itemsize
    zeros, stream = bytes(STRETCH_BYTES), bytearray(STRETCH_BYTES + 15)
    adding = [(np.add, _keystream(key)) for key in plus] + [(np.subtract, _keystream(key)) for key in minus]
    for start in range(0, total.size, stretch):
        words = total[start : start + stretch]
        silence, mask = memoryview(zeros)[: words.nbytes], np.frombuffer(stream, words.dtype, words.size)
        for operation, keystream in adding:
            keystream.update_into(silence, stream)
            operation(words, mask, out=words)


def _keystream(key: bytes) -> Any:
    return Cipher(algorithms.AES256(key), modes.CTR(_START)).encryptor()
