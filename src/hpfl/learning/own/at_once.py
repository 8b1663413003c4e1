"""What a method does for all UEs of a chunk at once on a CPU: models in buffers that stay, moved in place and added up.

A number that a cache holds is read for a tenth of what memory asks, and a buffer that is made anew costs its pages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from math import prod

import torch
from torch import Tensor

from hpfl.learning.engine import Sums
from hpfl.learning.own.chunk import OwnChunk, Pace
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.stage import Walker, first_params, first_ues


<<<<<<< HEAD
class WorkRoom:
    """Buffers that serve chunk after chunk, whoever has them alone."""
=======
class Buffers:
    """Memory that serves chunk after chunk, whoever has it alone."""
>>>>>>> main

    def __init__(self) -> None:
        self.held: dict[tuple[str, torch.dtype], Tensor] = {}

    def empty(self, role: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Room for numbers in a role: whatever was there in this role is overwritten."""
        key, size = (role, like.dtype), prod(shape)
        if key not in self.held or len(self.held[key]) < size:
            self.held[key] = like.new_empty(size)
        return self.held[key][:size].view(*shape)


@dataclass(frozen=True)
class AtOnce:
    """The UEs of a chunk: where they start, what they keep, and where what comes of it goes."""

    chunk: OwnChunk
    numbers: Sequence[int]  # of the local steps, in the chunk's stack
    start: Tensor  # [u, P], one row seen by all where they start alike
    kept: Tensor  # [u, S], not to be written to
    now: Tensor  # [u, S], to be written
    sums: Sums
    rate: float  # of the local steps
<<<<<<< HEAD
    work: WorkRoom
=======
    work: Buffers
>>>>>>> main

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the model's parameters, in their order in a vector."""
        return tuple(name for name in self.chunk.spec.names if name in self.chunk.network.names)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all parameters of a vector."""
        return dict(zip(self.chunk.spec.names, self.chunk.spec.shapes, strict=True))

    @cached_property
    def came(self) -> Params:
        """The model that came, not to be written to."""
        return self.seen(self.start, self.chunk.spec.names)

    def empty(self, role: str, names: Iterable[str] | None = None) -> Params:
        """Room for parameters."""
        count, network, wanted = self.chunk.num_ues, self.chunk.network, self.names if names is None else names
        return {
            name: network.room(
                name, (count, *self.shapes[name]), partial(self.work.empty, f"{role}/{name}", like=self.start)
            )
            for name in wanted
        }

    def seen(self, rows: Tensor, names: Iterable[str], first: int = 0) -> Params:
        """Parameters that lie side by side in rows [u, ...], from a place on."""
        count, found = self.chunk.num_ues, {}
        for name in names:
            size = prod(self.shapes[name])
            found[name] = rows[:, first : first + size].view(count, *self.shapes[name])
            first += size
        return found

    def model(self, role: str, own: Iterable[str] = ()) -> Params:
        """The model that came, to be moved; parameters that are a UE's own are the first that it keeps."""
        found = self.empty(role)
        given = self.came | self.seen(self.kept, own)
        for name, part in found.items():
            part.copy_(given[name])
        return found

    def walk(self, pace: Pace, point: Params, towards: Params | None = None, passes: int = 1) -> Tensor:
        """Take the local steps from a point, in place, drawn by what is given; the losses [u] at first."""
        chunk = self.chunk.above(pace.moving, point) if passes > 1 else self.chunk
        speed = self.empty("speed", sorted(pace.moving)) if pace.momentum else {}
        for part in speed.values():
            part.zero_()
        moved = {name: point[name] for name in self.names if name in chunk.network.names}
        return Walker(chunk.network, pace, moved, towards, speed).run(chunk, list(self.numbers) * passes)

    def gradients(self, point: Params, role: str) -> Params:
        """The sums of the gradients of all local steps at a point."""
        found = self.empty(role)
        for part in found.values():
            part.zero_()
        for number in self.numbers:
            count = self.chunk.active(number)
            into = Into(first_params(found, count), self.chunk.network.names, beta=1.0)
            self.chunk.network.gradient(first_params(point, count), first_ues(self.chunk.batch(number), count), into)
        return found

    def within(self, place: slice) -> list[slice]:
        """Where the model's parameters lie in a part of a vector that has a number for each of them."""
        sizes = [self.chunk.spec.sizes[self.chunk.spec.names.index(name)] for name in self.names]
        ends = [place.start, *(place.start + end for end in accumulate(sizes))]
        return [slice(first, end) for first, end in pairwise(ends)]

    def send(self, point: Params, names: Iterable[str] | None = None, scale: float = 1.0) -> None:
        """Add what leads from the model that came to a point, whose numbers are lost; other parameters stay here."""
        places, came = self.chunk.spec.places, self.came
        for name in self.names if names is None else names:
            torch.sub(came[name], point[name], out=point[name])
            self.sums.add(point[name].flatten(1), places[name], scale / self.rate)

    def keep(self, params: Params, names: Iterable[str] | None = None, first: int = 0) -> None:
        """Have the UEs keep parameters, from a place on."""
        for name, room in self.seen(self.now, self.names if names is None else names, first).items():
            room.copy_(params[name])
