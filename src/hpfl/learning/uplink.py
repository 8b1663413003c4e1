"""The uplink: the small steps (clip, add noise, encode) between a UE's update and the sum it is added to.

A step takes the numbers of one step before and hands on fewer or other ones; what else the receiver needs travels
beside them in side fields. How many bits that is depends on the length of an update alone, so it is known beforehand.
The simulator sends a chunk of UEs at once (`Uplink.send`), a deployed UE its own bytes (`to_bytes`, `from_bytes`): both
are the same `encode` and `decode`, and agree to the last bit where these treat each row alike in any company. What
works entry by entry does; a sum over a row may not, for which there is `row_norms`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from hpfl.learning.draws import Draws
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.message import MessageError, Side, SideField, all_finite, bytes_of, checked, num_bytes, parts_of
from hpfl.learning.norms import row_norms
from hpfl.registry import Registry

__all__ = ["IDENTITY", "UPLINKS", "Draws", "Tried", "Uplink", "UplinkStep", "row_norms"]


class UplinkStep(Protocol):
    """One step, for rows of UEs that know nothing of each other; a class derived from it need only say `encode`.

    One that `feeds_back` has the chain keep what did not arrive, after this step and all behind it, and add it to the
    next numbers: it encodes `u + e`, and then `e <- u + e - decoded`.
    """

    feeds_back: bool = False

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

    def variance(self, numbers: Tensor) -> Tensor | None:
        """`E |decoded - numbers|^2` of each row, [u] in float64, if that is known beforehand; None: one trial tells."""
        return None

    def delay(self, numbers: Tensor) -> Tensor | None:
        """Rounds by which rows that are the same every round come later, [u], where it feeds back; None: unknown."""
        return None


UPLINKS: Registry[Callable[..., UplinkStep]] = Registry(
    "uplink step",
    plural="uplinks",
    traits={"codec": False},
    called=(),
    made=("length", "side", "numbers_kept", "encode", "decode"),
)
"""What makes a step; one with options is called with the keyword `options`.

Trait `codec`: it makes an update fewer bits when that is sent, at a UE and again at its edge, and comes last in a row.
"""


Tried = dict[int, tuple[Tensor, Tensor]]
"""What steps add to updates, and what they hand on, by their identity."""


@dataclass(frozen=True)
class _Link:
    """A step in its place in a chain."""

    purpose: str
    step: UplinkStep
    n: int  # numbers it is given
    kept: slice  # its own among all that is kept
    error: slice  # those before, which say what did not arrive, where it feeds back

    @property
    def side(self) -> tuple[SideField, ...]:
        return self.step.side(self.n)

    @property
    def feeds_back(self) -> bool:
        return bool(self.error.stop > self.error.start)

    def given(self, numbers: Tensor, kept: Tensor) -> Tensor:
        """What it encodes: the numbers, and what did not arrive before."""
        return numbers + kept[:, self.error] if self.feeds_back else numbers

    def encoded(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """What it hands on, sends beside and keeps, checked."""
        handed, side, own = self.step.encode(numbers, kept[:, self.kept], draws.of(self.purpose))
        _check_rows(self.purpose, "hands on", handed, (len(numbers), self.step.length(self.n)), numbers.dtype)
        _check_rows(self.purpose, "keeps", own, (len(numbers), self.kept.stop - self.kept.start), kept.dtype)
        return handed, checked(side, self.side, len(numbers), self.purpose), own

    def variance(
        self, numbers: Tensor, kept: Tensor, draws: Draws, *, last: bool, tried: Tried
    ) -> tuple[Tensor, Tensor]:
        """Its own part, as it knows or as one trial tells, and what it hands on to the next."""
        if id(self.step) in tried:
            return tried[id(self.step)]
        known = self.step.variance(numbers) if hasattr(self.step, "variance") else None
        if known is not None and last:
            return known, numbers
        handed, side, _ = self.encoded(numbers, kept, draws)
        if known is None:
            left = numbers - self.step.decode(handed, side, self.n)
            known = torch.linalg.vector_norm(left, dim=1, dtype=torch.float64).square()
        tried[id(self.step)] = known, handed
        return known, handed


class _Coded(NamedTuple):
    """Numbers that are left, side fields of each step, what is kept; what arrives from the step `until` on."""

    numbers: Tensor
    sides: list[Side]
    kept: Tensor
    made: Tensor | None = None
    until: int = 0


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

    @property
    def feeds_back(self) -> bool:
        """Whether what does not arrive is kept and added to the next update."""
        return any(getattr(step, "feeds_back", False) for _, step in self.steps)

    def bits(self, n: int, bits_per_number: int) -> int:
        """Bits on the air of an update of `n` numbers; one that no step encodes takes `bits_per_number`."""
        links = self._links(n)
        return sum(field.count * field.bits for link in links for field in link.side) + self._left(n) * bits_per_number

    def numbers_kept(self, n: int) -> int:
        """Numbers U that a UE keeps between rounds for updates of `n` numbers."""
        links = self._links(n)
        return links[-1].kept.stop if links else 0

    def send(self, updates: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """What arrives of updates [u, n], and what their UEs keep now, [u, U]."""
        coded = self._encoded(updates, kept, draws)
        return self._arrived(coded, self._links(updates.shape[1])), coded.kept

    def variance(self, updates: Tensor, kept: Tensor, draws: Draws, tried: Tried | None = None) -> Tensor:
        """`E |arrived - (u + e)|^2` of updates [u, n], [u] in float64, before they are sent.

        It is exact for one step that knows its own; behind a step that draws, it is that of what its draws will be.
        Chains that are asked of the same updates and begin with the same step may share what it came to, in `tried`.
        """
        links, numbers = self._links(updates.shape[1]), updates
        total = torch.zeros(len(updates), dtype=torch.float64, device=updates.device)
        for link in links:
            known = {} if tried is None or link is not links[0] else tried
            own, numbers = link.variance(link.given(numbers, kept), kept, draws, last=link is links[-1], tried=known)
            total += own
        return total

    def num_bytes(self, n: int, dtype: torch.dtype = torch.float32) -> int:
        """Bytes of a message with an update of `n` numbers of a type."""
        return num_bytes([link.side for link in self._links(n)], self._left(n), dtype)

    def to_bytes(self, update: Tensor, kept: Tensor, draws: Draws) -> tuple[bytes, Tensor]:
        """The message with one UE's update [n], and what it keeps now, [U]."""
        coded = self._encoded(update.unsqueeze(0), kept.unsqueeze(0), draws)
        return bytes_of([link.side for link in self._links(len(update))], coded.sides, coded.numbers), coded.kept[0]

    def from_bytes(self, data: bytes, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """The update [n] in a message; what is not one is refused with a `MessageError`."""
        sides, numbers = parts_of(data, [link.side for link in self._links(n)], self._left(n), dtype)
        update = _decoded(numbers.unsqueeze(0), sides, self._links(n))[0]
        if not all_finite(update):
            raise MessageError("an update came with a number that is not finite")
        return update

    def _encoded(self, numbers: Tensor, kept: Tensor, draws: Draws) -> "_Coded":
        if not all_finite(numbers):
            raise NonFiniteUpdateError(
                "an update to be sent is not finite; lower learning.inner_lr or learning.outer_lr"
            )
        _check_shape(
            "what UEs keep for their uplink is a tensor", kept, (len(numbers), self.numbers_kept(numbers.shape[1]))
        )
        sides, rows, links = list[Side](), list[Tensor](), self._links(numbers.shape[1])
        feeding, whole = None, numbers
        for link in links:
            numbers = link.given(numbers, kept)
            if link.feeds_back:
                feeding, whole = link, numbers
                rows.append(whole)  # stands for what is left of it
            handed, side, own = link.encoded(numbers, kept, draws)
            sides.append(side)
            rows.append(own)
            numbers = handed
        if feeding is None:
            return _Coded(numbers, sides, torch.cat(rows, 1) if rows else kept)
        at = links.index(feeding)
        made = _decoded(numbers, sides[at:], links[at:])
        rows[at] = whole - made
        return _Coded(numbers, sides, torch.cat(rows, 1), made, at)

    @staticmethod
    def _arrived(coded: "_Coded", links: list[_Link]) -> Tensor:
        """What the receiver makes of it; what the sender has decoded itself is not decoded again."""
        if coded.made is None:
            return _decoded(coded.numbers, coded.sides, links)
        return _decoded(coded.made, coded.sides[: coded.until], links[: coded.until])

    def _links(self, n: int) -> list[_Link]:
        links, begin = list[_Link](), 0
        for own, (purpose, step) in zip(self._lengths(n), self.steps, strict=False):
            feeds = bool(getattr(step, "feeds_back", False))
            if feeds and any(link.feeds_back for link in links):
                raise LearningError(f"the uplink step {purpose!r} feeds back what one before it feeds back; wanted one")
            error = slice(begin, begin + (own if feeds else 0))
            kept = slice(error.stop, error.stop + step.numbers_kept(own))
            links.append(_Link(purpose, step, own, kept, error))
            begin = kept.stop
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


def _decoded(numbers: Tensor, sides: list[Side], links: list[_Link]) -> Tensor:
    """What some steps in a row make of what the last of them handed on."""
    for link, side in zip(reversed(links), reversed(sides), strict=True):
        dtype, wanted = numbers.dtype, (len(numbers), link.n)
        numbers = link.step.decode(numbers, side, link.n)
        _check_rows(link.purpose, "makes", numbers, wanted, dtype)
    return numbers


def _check_rows(purpose: str, does: str, rows: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> None:
    _check_shape(f"the uplink step {purpose!r} {does} a tensor", rows, shape)
    if rows.dtype != dtype:
        raise LearningError(f"the uplink step {purpose!r} {does} {rows.dtype}; wanted {dtype}")


def _check_shape(what: str, rows: Tensor, shape: tuple[int, int]) -> None:
    if rows.shape != shape:
        raise LearningError(f"{what} of shape {tuple(rows.shape)}; wanted {shape}")
