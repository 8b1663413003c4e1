"""How the cloud's step travels down: coded anew, or as the messages it was made of; and what a receiver makes of it.

The cloud applies to its own model what receivers will decode, so that nobody ends with another model than it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from hpfl.learning.coding import BY_CLOUD, Travelling
from hpfl.learning.draws import Draws
from hpfl.learning.uplink import Uplink
from hpfl.planning.broadcast import cheapest_step, forwards
from hpfl.rng import Streams


class StepEntries(NamedTuple):
    """Which entries of the menu uploads were coded by, and a step is that is coded anew."""

    uploads: int = 0
    step: int = 0


CLOUD_CODEC = "cloud_codec"
"""The cloud's own row [1, U] among what is kept: what its coded steps have left out so far."""


@dataclass(frozen=True)
class SentStep:
    """A step as it travels: what is to be subtracted [P], or messages [m][P] with the factor of each; and its bits.

    All are coded by the menu's entry `coding`; `encode` gives the bytes of what the cloud has coded.
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

    `travelling` are the parameters that travel; of the others no step ever changes any.
    """

    codings: tuple[Uplink, ...]
    bits_per_number: int
    num_travelling: int
    forwards: bool
    streams: Streams
    travelling: Travelling = field(default_factory=Travelling)

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
        codings: StepEntries,
        this_round: int,
    ) -> SentStep | None:
        """How a `step` [P] travels that is the sum of `messages` by their factors; None: only as a whole model."""
        coding = codings.step
        bits, message_bits = self.step_bits[coding], self.message_bits[codings.uploads]
        cost = cheapest_step(len(messages), bits, message_bits, self.model_bits)
        if cost >= self.model_bits:
            return None
        if forwards(len(messages), bits, message_bits):
            factors = tuple(float(np.float32(factor)) for factor, _ in messages)
            came = tuple(update for _, update in messages)
            return SentStep(cost, codings.uploads, messages=came, factors=factors, kept=kept)
        return self._coded(step, kept, coding, this_round)

    def _coded(self, step: torch.Tensor, kept: torch.Tensor | None, coding: int, this_round: int) -> SentStep:
        """The step as it is decoded, with what the cloud keeps of it now."""
        draws = Draws(self.streams, this_round, np.zeros(1, np.int64), step.device, BY_CLOUD)
        kept = self._begun(step) if kept is None else kept
        chain, rows = self.codings[coding], step.unsqueeze(0)
        decoded, left = self.travelling.coded(chain, rows, kept, draws)
        encode = partial(self.travelling.message, chain, rows, kept, draws)
        return SentStep(self.step_bits[coding], coding, decoded=decoded[0], encode=encode, kept=left)

    def _begun(self, step: torch.Tensor) -> torch.Tensor | None:
        """What a cloud keeps that begins [1, U]: zeros, as many as any coding of the menu needs."""
        width = max(one.numbers_kept(self.num_travelling) for one in self.codings)
        return step.new_zeros(1, width) if width else None
