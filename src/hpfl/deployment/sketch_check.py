"""Whether an update is the one that a sketch has announced: the same sums of the same numbers, with room for coding."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Vector
from hpfl.learning.sending import Sending
from hpfl.rng import Streams
from hpfl.training.foretold import Foretold
from hpfl.training.sketch import Projection

_ROUNDING = 1e-5
"""Of an update's norm: how far sums in another order, and a mean that is sent in float32, may be off."""
_CHANCE = 16.0
"""How many times the squared error that coding usually leaves a single draw of it may leave."""
_LEAST_KEPT = 0.01
"""Of a squared norm, what a codec that feeds its error back is taken to send at least."""
_BLOCK = 65536


@dataclass(frozen=True)
class SketchCheck:
    """The projection of a run as a parent uses it: to which sum each number goes, and with which sign.

    `coding_errors` are squared errors over the squared norm of what arrives, by entry of the menu of codings.
    """

    place: NDArray[Any]
    sign: NDArray[np.int8]
    width: int
    coding_errors: tuple[float, ...]

    @staticmethod
    def of(projection: Projection, coding_errors: tuple[float, ...] = ()) -> "SketchCheck":
        """The check of one projection, in three to five bytes for each number of an update."""
        order, length = projection.order.numpy(), len(projection.order)
        place = np.empty(length, dtype=np.uint16 if projection.width <= 2**16 else np.uint32)
        sign = np.empty(length, dtype=np.int8)
        place[order] = np.arange(length) % projection.width
        sign[order] = projection.sign.numpy()
        return SketchCheck(place, sign, projection.width, coding_errors)

    def sketch(self, update: Vector) -> FloatArray:
        """The sketch of an update, block by block."""
        sums = np.zeros(self.width)
        for at in range(0, len(update), _BLOCK):
            part = slice(at, at + _BLOCK)
            signed = update[part].astype(np.float64) * self.sign[part]
            sums += np.bincount(self.place[part], weights=signed, minlength=self.width)
        return sums

    def largest(self, update_norm: float) -> float:
        """The largest norm of a sketch of an update of such a norm: each sum is over `P / width` numbers."""
        return math.sqrt(math.ceil(len(self.place) / self.width)) * update_norm

    def coding_room(self, squared_norm: float, coding: int, noise: FloatArray, *, hops: int = 1) -> float:
        """How far the sketch of what arrives may be off that of what was coded, where codings have errors.

        `noise` is what a sender has announced for each coding, where the planner asks; whoever claims more noise to
        hide a lie is planned as if it had it.
        """
        if not self.coding_errors:
            return 0.0
        usual = hops * self.coding_errors[coding] * squared_norm
        return math.sqrt(_CHANCE * max(usual, float(noise[coding]) if len(noise) else 0.0))

    def check(self, update: Vector, announced: FloatArray, *, squared_norm: float, room: float = 0.0) -> None:
        """Refuse an update that is not the one announced."""
        off = float(np.linalg.norm(self.sketch(update) - announced))
        allowed = room + _ROUNDING * math.sqrt(squared_norm)
        if not off <= allowed:
            raise RefusedError(
                "sketch", f"an update came whose sketch is {off:.3g} off the one announced, at most {allowed:.3g} is"
            )


def coding_errors(sending: Sending, streams: Streams, *, backhaul: bool) -> tuple[float, ...]:
    """Squared errors of the menu's codings over the squared norm of what arrives, as normal numbers have them.

    What arrives of an unbiased codec is larger than what it was given, of one that feeds its error back smaller.
    """
    if all(chain.is_identity for chain in sending.codings):
        return ()
    usual = Foretold(sending.codings, sending.travelling, streams, backhaul).usual_errors(sending)
    each = zip(sending.codings, usual, strict=True)
    return tuple(
        error / max(1.0 - error, _LEAST_KEPT) if chain.feeds_back else error / (1.0 + error) for chain, error in each
    )
