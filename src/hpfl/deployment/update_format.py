"""How a UE's update looks on the wire, and back: the numbers that travel, as they are or as the uplink codes them."""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Vector, VectorSpec
from hpfl.learning import Draws, MessageError
from hpfl.learning.sending import Sending


@dataclass(frozen=True)
class Packed:
    """What is sent of an update, the update that will arrive, and what the uplink keeps of it (None: nothing)."""

    message: Vector
    arrives: Vector
    kept: torch.Tensor | None


@dataclass(frozen=True)
class UpdateFormat:
    """Turns an update into what is sent and what came into an update; `model` is what a whole one looks like."""

    model: VectorSpec
    sending: Sending

    @property
    def num_travelling(self) -> int:
        """Numbers that travel."""
        places = self.sending.places
        return self.model.length if places is None else len(places)

    @property
    def spec(self) -> VectorSpec:
        """What is received at all."""
        if self.sending.uplink.is_identity:
            return VectorSpec(self.num_travelling, self.model.dtype)
        size = self.sending.uplink.num_bytes(self.num_travelling, self._dtype)
        return VectorSpec(size, np.dtype(np.uint8))

    def packed(self, update: Vector, kept: torch.Tensor | None, draws: Draws) -> Packed:
        """What a UE sends of its update [P], with what its uplink kept before, [U]."""
        numbers, places = torch.from_numpy(update), self.sending.places
        own = numbers if places is None else numbers[places]
        if self.sending.uplink.is_identity:
            message = np.ascontiguousarray(own.numpy())
            return Packed(message, self._whole(own), None)
        data, left = self.sending.uplink.to_bytes(own, own[:0] if kept is None else kept, draws)
        arrives = self.sending.uplink.from_bytes(data, len(own), own.dtype)
        return Packed(np.frombuffer(data, dtype=np.uint8), self._whole(arrives), left if len(left) else None)

    def unpacked(self, arrival: Arrival) -> Vector:
        """The update [P] that an edge reads from what came; nothing comes of what does not travel, which is 0."""
        came = arrival.vector()
        if self.sending.uplink.is_identity:
            return came if self.sending.places is None else self._whole(torch.from_numpy(came))
        try:
            numbers = self.sending.uplink.from_bytes(came.tobytes(), self.num_travelling, self._dtype)
        except MessageError as error:
            raise RefusedError("malformed", str(error)) from None
        return self._whole(numbers)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float64 if self.model.dtype.itemsize == 8 else torch.float32

    def _whole(self, numbers: torch.Tensor) -> Vector:
        """A vector [P] of the numbers that travel."""
        places = self.sending.places
        if places is None:
            return np.asarray(numbers.numpy())
        return np.asarray(numbers.new_zeros(self.model.length).index_copy_(0, places, numbers).numpy())
