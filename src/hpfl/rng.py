"""Keyed randomness: every draw has an address (seed, purpose, round, member) and no draw depends on another.

A stream is the counter-based generator Philox keyed by a hash of (seed, purpose) with the round in its counter;
member `i` owns the `i`-th 64-bit word. Whole arrays are drawn at once, any slice of an array can be drawn alone,
and a real UE can draw exactly what its simulated twin would. Distributions are inverse transforms of one uniform
each, so that a member's draw never shifts another's.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray

_WORDS_PER_BLOCK = 4  # Philox 4x64 makes four 64-bit words from one counter value


@dataclass(frozen=True)
class Stream:
    """The draws of one purpose in one round, addressed by member."""

    seed: int
    purpose: str
    round: int = 0

    def uniform(self, count: int, start: int = 0) -> FloatArray:
        """Members `start .. start + count`, each uniform in [0, 1)."""
        first_block, skip = divmod(start, _WORDS_PER_BLOCK)
        return np.random.Generator(self._bits(first_block)).random(skip + count)[skip:]

    def uniform32(self, count: int, start: int = 0) -> NDArray[np.float32]:
        """The same in float32, two to a word: multiples of 2^-24."""
        first_block, skip = divmod(start, 2 * _WORDS_PER_BLOCK)
        return np.random.Generator(self._bits(first_block)).random(skip + count, dtype=np.float32)[skip:]

    def exponential(self, count: int, start: int = 0) -> FloatArray:
        """Unit-mean exponential draws (power gain of Rayleigh fading)."""
        return -np.log1p(-self.uniform(count, start))

    def normal(self, count: int, start: int = 0) -> FloatArray:
        """Standard normal draws."""
        return normal_quantiles(self.uniform(count, start))

    def permutation(self, count: int) -> IntArray:
        """A uniform random order of `range(count)`."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def choice(self, count: int, size: int) -> IntArray:
        """`size` distinct members of `range(count)`, in increasing order."""
        return np.sort(self.permutation(count)[:size])

    def integers(self, high: int, count: int, start: int = 0) -> IntArray:
        """Whole numbers uniform in [0, high)."""
        return (self.uniform(count, start) * high).astype(np.int64)

    def seed64(self) -> int:
        """One 63-bit number of this stream, to seed a library's own generator (model initialisation)."""
        return int(np.random.Generator(self._bits(0)).integers(0, 2**63 - 1, dtype=np.int64))

    def _bits(self, first_block: int) -> np.random.Philox:
        digest = hashlib.blake2b(f"{self.seed}/{self.purpose}".encode(), digest_size=16).digest()
        key = np.frombuffer(digest, dtype="<u8")
        counter = np.array([first_block, 0, self.round, 0], dtype=np.uint64)
        return np.random.Philox(key=key, counter=counter)


def normal_quantiles(uniform: FloatArray) -> FloatArray:
    """Standard normal draws from uniform ones in [0, 1)."""
    from scipy.special import ndtri  # many nodes draw no normals, and SciPy takes long to import

    half_ulp = 2.0**-54  # keeps the quantile of u = 0 finite
    return np.asarray(ndtri(uniform + half_ulp), dtype=np.float64)


@dataclass(frozen=True)
class Streams:
    """All randomness of a run: `Streams(seed).at("fading", round)` is one keyed stream."""

    seed: int

    def at(self, purpose: str, round: int = 0) -> Stream:  # noqa: A002  "round" is the field's own word
        """The stream of one purpose in one round."""
        return Stream(self.seed, purpose, round)
