"""How the cloud's step travels down: coded anew, or as the messages it was made of; and what a receiver makes of it.

The cloud applies to its own model what receivers will decode, so that nobody ends with another model than it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from hpfl.learning.uplink import Draws, Uplink
from hpfl.planning.broadcast import cheapest_step, forwards
from hpfl.rng import Streams

CLOUD_CODEC = "cloud_codec"
"""The cloud's own row [1, U] among what is kept: what its coded steps have left out so far."""


@dataclass(frozen=True)
class SentStep:
    """A step as it travels: what is to be subtracted [P], or messages [m][P] with the factor of each; and its bits.

    All are coded by one entry of the menu; `encode` gives the bytes of the one that the cloud has coded.
    """

    bits: float
    coding: int = 0
    decoded: torch.Tensor | None = None
    encode: Callable[[], bytes] | None = None
    messages: tuple[torch.Tensor, ...] = ()
    factors: tuple[float, ...] = ()
    kept: torch.Tensor | None = None

    def taken_by(self, params: torch.Tensor) -> torch.Tensor:
        """The model of a receiver that held `params`; whoever does this gets the same bits."""
        moved = params.to(torch.float64)
        if self.decoded is not None:
            moved = moved - self.decoded.to(torch.float64)
        for factor, message in zip(self.factors, self.messages, strict=True):
            moved = moved - message.to(torch.float64) * factor
        return moved.to(params.dtype)


@dataclass(frozen=True, kw_only=True)
class StepCoding:
    """The menu of codings, and whether messages may be forwarded: where the step is a weighted sum of them.

    `places` are the parameters that travel (None: all); of the others no step ever changes any.
    """

    codings: tuple[Uplink, ...]
    bits_per_number: int
    num_travelling: int
    forwards: bool
    streams: Streams
    places: torch.Tensor | None = None

    @property
    def model_bits(self) -> float:
        """Of the parameters that travel, as they are."""
        return float(self.num_travelling * self.bits_per_number)

    @property
    def step_bits(self) -> tuple[float, ...]:
        """Of a step, by entry of the menu; known beforehand."""
        return tuple(float(one.bits(self.num_travelling, self.bits_per_number)) for one in self.codings)

    @property
    def message_bits(self) -> tuple[float, ...]:
        """Of an edge's message that may be forwarded, by entry of the menu; infinite where it may not."""
        return self.step_bits if self.forwards else tuple(np.inf for _ in self.codings)

    def sent(
        self,
        messages: Sequence[tuple[float, torch.Tensor]],
        step: torch.Tensor,
        kept: torch.Tensor | None,
        *,
        coding: int,
        this_round: int,
    ) -> SentStep | None:
        """How a `step` [P] travels that is the sum of `messages` by their factors; None: only as a whole model."""
        bits, message_bits = self.step_bits[coding], self.message_bits[coding]
        cost = cheapest_step(len(messages), bits, message_bits, self.model_bits)
        if self.codings[coding].is_identity or cost >= self.model_bits:
            return None
        if forwards(len(messages), bits, message_bits):
            factors = tuple(float(np.float32(factor)) for factor, _ in messages)
            came = tuple(update for _, update in messages)
            return SentStep(cost, coding, messages=came, factors=factors, kept=kept)
        return self._coded(step, kept, coding, this_round)

    def _coded(self, step: torch.Tensor, kept: torch.Tensor | None, coding: int, this_round: int) -> SentStep:
        """The step as it is decoded, with what the cloud keeps of it now."""
        chain, draws = (
            self.codings[coding],
            Draws(self.streams, this_round, np.zeros(1, np.int64), step.device, "codec/cloud"),
        )
        own = (step if self.places is None else step[self.places]).unsqueeze(0)
        width = chain.numbers_kept(self.num_travelling)
        rows = self._row(step, kept)
        encode = partial(_bytes_of, chain, own[0], rows[0, :width], draws)
        decoded, left = chain.send(own, rows[:, :width], draws)
        if width:
            rows = torch.cat([left, rows[:, width:]], dim=1)
        whole = decoded[0] if self.places is None else torch.zeros_like(step).index_copy_(0, self.places, decoded[0])
        kept = rows if rows.shape[1] else None
        return SentStep(self.step_bits[coding], coding, decoded=whole, encode=encode, kept=kept)

    def _row(self, step: torch.Tensor, kept: torch.Tensor | None) -> torch.Tensor:
        """What the cloud keeps [1, U], as wide as any coding of the menu needs; zeros before the first step."""
        width = max(one.numbers_kept(self.num_travelling) for one in self.codings)
        return step.new_zeros(1, width) if kept is None else kept.to(step)


def _bytes_of(chain: Uplink, numbers: torch.Tensor, kept: torch.Tensor, draws: Draws) -> bytes:
    """The message that others decode to what the cloud has: coding draws the same when it is done again."""
    return chain.to_bytes(numbers, kept, draws)[0]
