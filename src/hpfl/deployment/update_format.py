"""How updates look on the wire, and back: the numbers that travel, plain or as uplink and codecs make them."""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Vector, VectorSpec
from hpfl.learning import Draws, MessageError
from hpfl.learning.sending import Sending
from hpfl.learning.uplink import IDENTITY, Uplink
from hpfl.training.counted import Counted


@dataclass(frozen=True)
class Packed:
    """What is sent of an update, the update that will arrive, and what the uplink keeps of it (None: nothing)."""

    message: Vector
    arrives: Vector
    kept: torch.Tensor | None


@dataclass(frozen=True)
class UpdateFormat:
    """Turns an update into what is sent and what came into an update; `model` is what a whole one looks like.

    A UE's update is made by the uplink as it is computed. Where it is ordered to be coded, by an entry of the menu of
    codings, what arrives of it is coded as it is sent; so is an edge's update, where it has a `backhaul`. `counted` is
    what of it counts by the share of the UEs that were heard (None: nothing).
    """

    model: VectorSpec
    sending: Sending
    backhaul: bool = True
    counted: Counted | None = None

    @property
    def num_travelling(self) -> int:
        """Numbers that travel."""
        places = self.sending.places
        return self.model.length if places is None else len(places)

    @property
    def dtype(self) -> torch.dtype:
        """The type of all numbers."""
        return torch.float64 if self.model.dtype.itemsize == 8 else torch.float32

    def chain(self, coding: int) -> Uplink:
        """The codecs of an entry of the menu; a menu without entries has one that codes nothing."""
        menu = self.sending.codings or (IDENTITY,)
        if not 0 <= coding < len(menu):
            raise RefusedError("unexpected", f"coding {coding} was ordered, the experiment has {len(menu)}")
        return menu[coding]

    def codes(self, coding: int) -> bool:
        """Whether a UE's update is coded by an entry of the menu."""
        return not self.chain(coding).is_identity

    def codes_again(self, coding: int) -> bool:
        """Whether an edge's update is."""
        return self.backhaul and self.codes(coding)

    def ue_spec(self, coding: int) -> VectorSpec:
        """What an edge receives of a UE."""
        if self.codes(coding):
            return self._bytes_of(self.chain(coding))
        uplink = self.sending.uplink
        return VectorSpec(self.num_travelling, self.model.dtype) if uplink.is_identity else self._bytes_of(uplink)

    def edge_spec(self, coding: int) -> VectorSpec:
        """What the cloud receives of an edge."""
        return self._bytes_of(self.chain(coding)) if self.codes_again(coding) else self.model

    def packed(self, update: Vector, kept: torch.Tensor | None, draws: Draws) -> Packed:
        """What a UE's uplink makes of its update [P], with what it kept before, [U]."""
        own = _travelling(update, self.sending.places)
        if self.sending.uplink.is_identity:
            message = np.ascontiguousarray(own.numpy())
            return Packed(message, self._whole(own), None)
        data, left = self.sending.uplink.to_bytes(own, own[:0] if kept is None else kept, draws)
        arrives = self.sending.uplink.from_bytes(data, len(own), own.dtype)
        return Packed(np.frombuffer(data, dtype=np.uint8), self._whole(arrives), left if len(left) else None)

    def coded(self, update: Vector, row: torch.Tensor, draws: Draws, coding: int) -> tuple[Vector, torch.Tensor]:
        """The message with an update [P], and what its sender keeps now; a wider row serves other chains too."""
        chain, own = self.chain(coding), _travelling(update, self.sending.places)
        used = chain.numbers_kept(len(own))
        data, left = chain.to_bytes(own, row[:used], draws)
        return np.frombuffer(data, dtype=np.uint8), torch.cat([left, row[used:]]) if used else row

    def from_ue(self, arrival: Arrival, coding: int) -> Vector:
        """The update [P] that an edge reads from what came; nothing comes of what does not travel, which is 0."""
        came, uplink = arrival.vector(), self.sending.uplink
        if self.codes(coding):
            return self.decoded(came, coding)
        if uplink.is_identity:
            return came if self.sending.places is None else self._whole(torch.from_numpy(came))
        return self._read(uplink, came)

    def from_edge(self, arrival: Arrival, coding: int) -> Vector:
        """The update [P] that the cloud reads from what came."""
        came = arrival.vector()
        return self.decoded(came, coding) if self.codes_again(coding) else came

    def decoded(self, message: Vector, coding: int) -> Vector:
        """The update [P] in a coded message."""
        return self._read(self.chain(coding), message)

    def _read(self, chain: Uplink, message: Vector) -> Vector:
        try:
            return self._whole(chain.from_bytes(message.tobytes(), self.num_travelling, self.dtype))
        except MessageError as error:
            raise RefusedError("malformed", str(error)) from None

    def _bytes_of(self, chain: Uplink) -> VectorSpec:
        return VectorSpec(chain.num_bytes(self.num_travelling, self.dtype), np.dtype(np.uint8))

    def _whole(self, numbers: torch.Tensor) -> Vector:
        """A vector [P] of the numbers that travel."""
        places = self.sending.places
        if places is None:
            return np.asarray(numbers.numpy())
        return np.asarray(numbers.new_zeros(self.model.length).index_copy_(0, places, numbers).numpy())


def _travelling(update: Vector, places: torch.Tensor | None) -> torch.Tensor:
    numbers = torch.from_numpy(update)
    return numbers if places is None else numbers[places]
