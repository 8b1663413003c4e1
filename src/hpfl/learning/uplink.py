"""The uplink: the small steps (clip, add noise, encode) between a UE's update and the sum it is added to.

A step takes the numbers of one step before and hands on fewer or other ones; what else the receiver needs travels
beside them in side fields. How many bits that is depends on the length of an update alone, so it is known beforehand.
The simulator sends a chunk of UEs at once (`Uplink.send`), a deployed UE its own bytes (`to_bytes`, `from_bytes`): both
are the same `encode` and `decode`, and agree to the last bit where these treat each row alike in any company. What
works entry by entry does; a sum over a row may not, for which there is `row_norms`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.batches import member_draws
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.message import MessageError, Side, SideField, bytes_of, checked, num_bytes, parts_of
from hpfl.registry import Registry
from hpfl.rng import Stream, Streams, normal_quantiles

_AT_ONCE = 1 << 20  # words drawn in one go, so that what lies beside the result stays small
_STRETCH = 1024  # squares that a norm adds up at a time


@dataclass(frozen=True)
class Draws:
    """The draws of some UEs in one round: addressed by (seed, purpose, key, UE), whoever else is in the chunk."""

    streams: Streams
    key: int
    ues: IntArray  # [u]
    device: torch.device
    purpose: str = "uplink"

    def of(self, name: str) -> "Draws":
        """Draws of their own under a further name."""
        return replace(self, purpose=f"{self.purpose}/{name}")

    def uniform(self, count: int) -> Tensor:
        """`count` numbers of each UE, uniform in [0, 1), [u, count] in float64; the same when asked again."""
        return self._filled(count, lambda stream, ues: member_draws(stream, ues, count))

    def normal(self, count: int) -> Tensor:
        """The same, standard normal."""
        return self._filled(count, lambda stream, ues: normal_quantiles(member_draws(stream, ues, count)))

    def _filled(self, count: int, drawn: Callable[[Stream, IntArray], FloatArray]) -> Tensor:
        result, stream = torch.empty(len(self.ues), count, dtype=torch.float64), self.streams.at(self.purpose, self.key)
        step, into = max(_AT_ONCE // max(count, 1), 1), result.numpy()
        for first in range(0, len(self.ues), step):
            into[first : first + step] = drawn(stream, self.ues[first : first + step])
        return result.to(self.device)


class UplinkStep(Protocol):
    """One step, for rows of UEs that know nothing of each other; a class derived from it need only say `encode`."""

    def length(self, n: int) -> int:
        """Numbers that it hands on of `n`."""
        return n

    def side(self, n: int) -> tuple[SideField, ...]:
        """What else it sends of `n` numbers."""
        return ()

    def numbers_kept(self, n: int) -> int:
        """Numbers U that a UE keeps between rounds; those of a UE which begins are 0."""
        return 0

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """From numbers [u, n] to those handed on [u, m], side fields [u, count] by name, and what is kept now [u, U].

        The arguments may not be written to.
        """

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """The numbers [u, n] that the receiver makes of what was handed on."""
        return numbers


UPLINKS: Registry[Callable[..., UplinkStep]] = Registry(
    "uplink step",
    plural="uplinks",
    called=(),
    made=("length", "side", "numbers_kept", "encode", "decode"),
)
"""What makes a step; one with options is called with the keyword `options`."""


@dataclass(frozen=True)
class _Link:
    """A step in its place in a chain."""

    purpose: str
    step: UplinkStep
    n: int  # numbers it is given
    kept: slice  # its own among all that is kept

    @property
    def side(self) -> tuple[SideField, ...]:
        return self.step.side(self.n)


@dataclass(frozen=True)
class Uplink:
    """A chain of steps, each with the name that its draws are addressed by; without steps, updates arrive as they are.

    uplink = Uplink.of([("clip", Clip(1.0)), ("round", Rounding())])
    """

    steps: tuple[tuple[str, UplinkStep], ...] = ()

    @staticmethod
    def of(steps: Iterable[tuple[str, UplinkStep]]) -> "Uplink":
        """A chain of named steps; a name that comes again is numbered, so that its draws are others."""
        named, seen = [], dict[str, int]()
        for name, step in steps:
            seen[name] = seen.get(name, 0) + 1
            named.append((name if seen[name] == 1 else f"{name}/{seen[name]}", step))
        return Uplink(tuple(named))

    @property
    def is_identity(self) -> bool:
        """Whether updates arrive as they are."""
        return not self.steps

    def bits(self, n: int, bits_per_number: int) -> int:
        """Bits on the air of an update of `n` numbers; one that no step encodes takes `bits_per_number`."""
        links = self._links(n)
        return sum(field.count * field.bits for link in links for field in link.side) + self._left(n) * bits_per_number

    def numbers_kept(self, n: int) -> int:
        """Numbers U that a UE keeps between rounds for updates of `n` numbers."""
        return sum(step.numbers_kept(own) for own, (_, step) in zip(self._lengths(n), self.steps, strict=False))

    def send(self, updates: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """What arrives of updates [u, n], and what their UEs keep now, [u, U]."""
        numbers, sides, kept = self._encoded(updates, kept, draws)
        return self._decoded(numbers, sides, updates.shape[1]), kept

    def num_bytes(self, n: int, dtype: torch.dtype = torch.float32) -> int:
        """Bytes of a message with an update of `n` numbers of a type."""
        return num_bytes([link.side for link in self._links(n)], self._left(n), dtype)

    def to_bytes(self, update: Tensor, kept: Tensor, draws: Draws) -> tuple[bytes, Tensor]:
        """The message with one UE's update [n], and what it keeps now, [U]."""
        numbers, sides, kept = self._encoded(update.unsqueeze(0), kept.unsqueeze(0), draws)
        return bytes_of([link.side for link in self._links(len(update))], sides, numbers), kept[0]

    def from_bytes(self, data: bytes, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """The update [n] in a message; what is not one is refused with a `MessageError`."""
        sides, numbers = parts_of(data, [link.side for link in self._links(n)], self._left(n), dtype)
        update = self._decoded(numbers.unsqueeze(0), sides, n)[0]
        if not bool(torch.isfinite(update).all()):
            raise MessageError("an update came with a number that is not finite")
        return update

    def _encoded(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, list[Side], Tensor]:
        if not bool(torch.isfinite(numbers).all()):
            raise NonFiniteUpdateError(
                "an update to be sent is not finite; lower learning.inner_lr or learning.outer_lr"
            )
        _check_shape(
            "what UEs keep for their uplink is a tensor", kept, (len(numbers), self.numbers_kept(numbers.shape[1]))
        )
        sides, rows = [], []
        for link in self._links(numbers.shape[1]):
            handed, side, own = link.step.encode(numbers, kept[:, link.kept], draws.of(link.purpose))
            wanted = (len(numbers), link.step.length(link.n))
            _check_rows(link.purpose, "hands on", handed, wanted, numbers.dtype)
            _check_rows(link.purpose, "keeps", own, (len(numbers), link.kept.stop - link.kept.start), kept.dtype)
            sides.append(checked(side, link.side, len(numbers), link.purpose))
            rows.append(own)
            numbers = handed
        return numbers, sides, torch.cat(rows, 1) if rows else kept

    def _decoded(self, numbers: Tensor, sides: list[Side], n: int) -> Tensor:
        for link, side in zip(reversed(self._links(n)), reversed(sides), strict=True):
            dtype, wanted = numbers.dtype, (len(numbers), link.n)
            numbers = link.step.decode(numbers, side, link.n)
            _check_rows(link.purpose, "makes", numbers, wanted, dtype)
        return numbers

    def _links(self, n: int) -> list[_Link]:
        links, begin = [], 0
        for own, (purpose, step) in zip(self._lengths(n), self.steps, strict=False):
            end = begin + step.numbers_kept(own)
            links.append(_Link(purpose, step, own, slice(begin, end)))
            begin = end
        return links

    def _lengths(self, n: int) -> list[int]:
        """Numbers given to each step, and those left after the last."""
        lengths = [n]
        for name, step in self.steps:
            if not lengths[-1]:
                raise LearningError(
                    f"the uplink step {name!r} is given no numbers; wanted it before the one that takes them"
                )
            lengths.append(step.length(lengths[-1]))
        return lengths

    def _left(self, n: int) -> int:
        return self._lengths(n)[-1]


IDENTITY = Uplink()
"""Updates arrive as they are."""


def row_norms(numbers: Tensor) -> Tensor:
    """Euclidean norms [u, 1] of the rows [u, n], in float64; on a CPU a row's is the same in any company.

    A row is added up in stretches of a fixed length, so that no library splits the sum by the number of rows.
    """
    squares = numbers.double().square()
    while squares.shape[1] > 1:
        width = min(_STRETCH, squares.shape[1])
        padding = -squares.shape[1] % width
        squares = torch.nn.functional.pad(squares, (0, padding)).view(len(squares), -1, width).sum(2)
    return squares.sqrt()


def _check_rows(purpose: str, does: str, rows: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> None:
    _check_shape(f"the uplink step {purpose!r} {does} a tensor", rows, shape)
    if rows.dtype != dtype:
        raise LearningError(f"the uplink step {purpose!r} {does} {rows.dtype}; wanted {dtype}")


def _check_shape(what: str, rows: Tensor, shape: tuple[int, int]) -> None:
    if rows.shape != shape:
        raise LearningError(f"{what} of shape {tuple(rows.shape)}; wanted {shape}")
