"""The bytes of an update: side fields of an uplink's steps and the numbers that are left, of a size known beforehand.

Layout: the side fields of the first step in the order it names them, those of the next, and so on; then the numbers.
All is little-endian. Floating-point entries and numbers are IEEE 754 of their own type. An entry whose `bits` are those
of its type stands as it is (two's complement); others are unsigned, their lowest `bits` bits follow each other without
gaps, the lowest bit first, and zero bits fill a field's last byte. There is no header: the receiver knows every size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpfl.learning.faults import LearningError

Side = Mapping[str, Tensor]
"""Side fields of one step by name, each [u, count]."""

_TYPES: dict[torch.dtype, str] = {
    torch.float16: "<f2",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.bool: "<u1",
    torch.uint8: "<u1",
    torch.int8: "<i1",
    torch.int16: "<i2",
    torch.int32: "<i4",
    torch.int64: "<i8",
}


class MessageError(LearningError):
    """Bytes that are no update, or numbers that have no place in one."""


@dataclass(frozen=True)
class SideField:
    """What a step sends beside its numbers: `count` entries of a type, each of which takes `bits` bits on the air."""

    name: str
    dtype: torch.dtype
    count: int
    bits: int
    below: int | None = None  # whole numbers that must be from 0 to below this: places in an update, for one

    def __post_init__(self) -> None:
        if self.dtype not in _TYPES:
            known = ", ".join(str(dtype) for dtype in _TYPES)
            raise LearningError(f"the side field {self.name!r} is of {self.dtype}; wanted one of {known}")
        least = self.width if self.dtype.is_floating_point else 1
        if not least <= self.bits <= self.width:
            wanted = f"{self.width}" if least == self.width else f"1 to {self.width}"
            raise LearningError(f"the side field {self.name!r} has {self.bits} bits an entry; wanted {wanted}")

    @property
    def width(self) -> int:
        """Bits of an entry in memory."""
        return 1 if self.dtype == torch.bool else np.dtype(_TYPES[self.dtype]).itemsize * 8

    @property
    def num_bytes(self) -> int:
        """Bytes of all entries."""
        return -(-self.count * self.bits // 8)


def num_bytes(sides: Sequence[Sequence[SideField]], left: int, dtype: torch.dtype) -> int:
    """Bytes of a message with these side fields and `left` numbers of a type."""
    return sum(field.num_bytes for fields in sides for field in fields) + left * np.dtype(_TYPES[dtype]).itemsize


def checked(side: Side, fields: Sequence[SideField], count: int, purpose: str) -> Side:
    """The side fields of `count` UEs as a receiver will see them: in the types that were named."""
    if set(side) != {field.name for field in fields}:
        wanted = ", ".join(field.name for field in fields) or "nothing"
        raise LearningError(f"the uplink step {purpose!r} sends {', '.join(side) or 'nothing'} beside; wanted {wanted}")
    for field in fields:
        if side[field.name].shape != (count, field.count):
            found, shape = tuple(side[field.name].shape), (count, field.count)
            raise LearningError(f"the uplink step {purpose!r} sends {field.name!r} of shape {found}; wanted {shape}")
    own = {field.name: side[field.name].to(field.dtype) for field in fields}
    for field in fields:
        _refuse_values(own[field.name], field)
    return own


def bytes_of(sides: Sequence[Sequence[SideField]], values: Sequence[Side], numbers: Tensor) -> bytes:
    """The message of one UE; every tensor has one row."""
    pairs = zip(sides, values, strict=True)
    parts = [_packed(own[field.name][0], field) for fields, own in pairs for field in fields]
    return b"".join([*parts, _array(numbers[0]).tobytes()])


def parts_of(
    data: bytes, sides: Sequence[Sequence[SideField]], left: int, dtype: torch.dtype
) -> tuple[list[Side], Tensor]:
    """Side fields [1, count] and numbers [left] of a message; what has another size, or no sense, is refused."""
    wanted = num_bytes(sides, left, dtype)
    if len(data) != wanted:
        raise MessageError(f"{len(data)} bytes came for an update; wanted {wanted}")
    found, begin = list[Side](), 0
    for fields in sides:
        own = dict[str, Tensor]()
        for field in fields:
            own[field.name] = _unpacked(data[begin : begin + field.num_bytes], field).unsqueeze(0)
            begin += field.num_bytes
        found.append(own)
    numbers = torch.from_numpy(np.frombuffer(data, _TYPES[dtype], offset=begin).astype(_native(dtype)))
    _refuse_nonfinite(numbers, "the numbers of an update")
    return found, numbers


def _packed(entries: Tensor, field: SideField) -> bytes:
    array = _array(entries)
    if field.bits == field.width and field.dtype != torch.bool:
        return array.tobytes()
    size = array.dtype.itemsize
    bits = np.unpackbits(array.view(np.uint8).reshape(-1, size), axis=1, bitorder="little")[:, : field.bits]
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def _unpacked(data: bytes, field: SideField) -> Tensor:
    if field.bits == field.width and field.dtype != torch.bool:
        array = np.frombuffer(data, _TYPES[field.dtype]).astype(_native(field.dtype))
    else:
        array = _spread(data, field)
    entries = torch.from_numpy(array).to(field.dtype)
    _refuse_values(entries, field)
    return entries


def _spread(data: bytes, field: SideField) -> NDArray[Any]:
    """Entries of fewer bits than their type has."""
    size, used = np.dtype(_TYPES[field.dtype]).itemsize, field.count * field.bits
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[used:].any():
        raise MessageError(f"the side field {field.name!r} came with bits beyond its {field.count} entries")
    wide = np.zeros((field.count, size * 8), dtype=np.uint8)
    wide[:, : field.bits] = bits[:used].reshape(field.count, field.bits)
    packed = np.packbits(wide, axis=1, bitorder="little").reshape(-1)
    return packed.view(_TYPES[field.dtype]).astype(_native(field.dtype))


def _refuse_values(entries: Tensor, field: SideField) -> None:
    """Refuse what is not finite, what has more bits than its field, and what is not below its bound."""
    where = f"the side field {field.name!r}"
    if field.dtype.is_floating_point:
        _refuse_nonfinite(entries, where)
        return
    below = field.below if field.below is not None else 1 << field.bits
    if not entries.numel() or (field.below is None and field.bits == field.width):
        return
    whole = entries.to(torch.uint8) if entries.dtype == torch.bool else entries
    least, most = (int(value) for value in torch.aminmax(whole))
    if least < 0 or most >= below:
        raise MessageError(f"{where} has an entry {least if least < 0 else most}; wanted 0 to {below - 1}")


def _refuse_nonfinite(numbers: Tensor, where: str) -> None:
    if not all_finite(numbers):
        raise MessageError(f"{where} came with a number that is not finite")


def all_finite(numbers: Tensor) -> bool:
    """Whether no number is infinite or NaN, in one pass: the least and the greatest tell."""
    return not numbers.numel() or all(bool(torch.isfinite(end)) for end in torch.aminmax(numbers))


def _array(entries: Tensor) -> NDArray[Any]:
    array = entries.detach().cpu().contiguous().numpy()
    return np.ascontiguousarray(array.astype(_TYPES[entries.dtype]))


def _native(dtype: torch.dtype) -> np.dtype[Any]:
    return np.dtype(_TYPES[dtype]).newbyteorder("=")
