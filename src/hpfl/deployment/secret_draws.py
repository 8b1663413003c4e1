"""Noise that nobody else can foretell: draws from a key that a node keeps, the same again for the same message.

The seed of a run is known to all who take part, so noise of privacy may not come from it. A node draws a key once,
keeps it beside what else it keeps, and makes a stream of ChaCha20 from it for every message (HMAC-SHA-256 of what the
message is). A node that was killed and computes the same message again adds the same noise again: two messages that
differed by noise alone would tell more than one.
"""

import hashlib
import hmac
import math
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray
from hpfl.deployment.settings import SettingsError

KEY_FILE, _KEY_BYTES = "noise.key", 32
_UNIT = 2.0**-53


class SecretDraws:
    """Draws for one message, as `numpy.random.Generator` names them."""

    def __init__(self, key: bytes, about: bytes) -> None:
        derived = hmac.new(key, about, hashlib.sha256).digest()
        self._stream = Cipher(algorithms.ChaCha20(derived, bytes(16)), mode=None).encryptor()

    def random(self, size: int) -> FloatArray:
        """Numbers from 0 to below 1, of 53 bits."""
        return np.asarray((self._words(size) >> np.uint64(11)).astype(np.float64) * _UNIT)

    def integers(self, low: int, high: int, size: int) -> IntArray:
        """Whole numbers from `low` to below `high`, which are at most 2^32 apart: uneven by 2^-32 at most."""
        span = np.uint64(high - low)
        return np.asarray(((self._words(size) >> np.uint64(32)) * span >> np.uint64(32)).astype(np.int64) + low)

    def geometric(self, p: float, size: int) -> IntArray:
        """The number of tries, from 1, until one of chance `p` comes true."""
        return np.asarray(np.ceil(np.log1p(-self.random(size)) / math.log1p(-p)).clip(1), dtype=np.int64)

    def standard_normal(self, size: int) -> FloatArray:
        """Normal numbers (Box and Muller, 1958)."""
        half = (size + 1) // 2
        radius = np.sqrt(-2.0 * np.log1p(-self.random(half)))
        angle = 2.0 * np.pi * self.random(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]

    def _words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._stream.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


def kept_key(state: Path) -> bytes:
    """The key of a node, from its folder; made there the first time."""
    path = state / KEY_FILE
    if not path.exists():
        state.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    found = path.read_bytes()
    if len(found) != _KEY_BYTES:
        raise SettingsError(f"{path} has {len(found)} bytes, wanted {_KEY_BYTES}; remove it, and another key is drawn")
    return found


def about(kind: str, tag: Any, members: Collection[int], content: NDArray[Any]) -> bytes:
    """What a message is: a model, whose updates are in it, and what it says before its noise.

    The content is in it, for noise that is the same on two different contents would show their difference.
    """
    whose = np.array(sorted(members), dtype="<i8").tobytes()
    words = [kind.encode(), tag.run.encode(), tag.base, f"{tag.edge_round}".encode(), whose]
    words.append(hashlib.sha256(np.ascontiguousarray(content).tobytes()).digest())
    return b"".join(len(word).to_bytes(8, "little") + word for word in words)
