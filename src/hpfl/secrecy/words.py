"""Words of a few bits: checked, and packed without gaps for the wire."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Instance

WordArray = NDArray[np.uint64]
AnyWords = NDArray[np.unsignedinteger[Any]]
"""Words of any unsigned type that has room for them."""

_WHOLE = {8 * size: np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}


def checked(words: NDArray[Any], instance: Instance) -> None:
    """Refuse words of another number, type or range than the instance's."""
    if words.shape != (instance.length,) or words.dtype.kind != "u":
        wanted = f"{instance.length} unsigned integers"
        raise SecrecyError(f"{instance.name}: an array {words.shape} of {words.dtype} came; wanted {wanted}")
    if int(words.max()) >> instance.bits:
        raise SecrecyError(f"{instance.name}: the word {words.max()} came; wanted {instance.bits} bits at most")


def packed(words: NDArray[Any], bits: int) -> bytes:
    """Words of `bits` bits each as bytes, lowest bit first; the last byte is filled with zeros."""
    if not 1 <= bits <= 64:
        raise SecrecyError(f"words of {bits} bits were asked for; wanted 1 to 64")
    if bits in _WHOLE:
        return words.astype(_WHOLE[bits], copy=False).tobytes()
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8).reshape(-1, 8)
    if bits % 8 == 0:
        return octets[:, : bits // 8].tobytes()
    return np.packbits(np.unpackbits(octets, axis=1, count=bits, bitorder="little"), bitorder="little").tobytes()


def unpacked(data: bytes, length: int, bits: int) -> AnyWords:
    """The words that `packed` made, perhaps read-only; refused if bytes are missing, or are left over."""
    if not 1 <= bits <= 64 or length < 0:
        raise SecrecyError(f"{length} words of {bits} bits were asked for; wanted 1 to 64 bits")
    wanted = packed_bytes(length, bits)
    if len(data) != wanted:
        raise SecrecyError(f"{len(data)} bytes came; {length} words of {bits} bits are {wanted}")
    if bits in _WHOLE:
        return np.frombuffer(data, _WHOLE[bits])
    octets = np.zeros((length, 8), np.uint8)
    raw = np.frombuffer(data, np.uint8)
    if bits % 8 == 0:
        octets[:, : bits // 8] = raw.reshape(length, bits // 8)
    else:
        single = np.unpackbits(raw, bitorder="little")
        if single[length * bits :].any():
            raise SecrecyError("bits are set behind the last word")
        few = np.packbits(single[: length * bits].reshape(length, bits), axis=1, bitorder="little")
        octets[:, : few.shape[1]] = few
    return octets.reshape(-1).view("<u8").astype(np.uint64, copy=False)


def packed_bytes(length: int, bits: int) -> int:
    """How many bytes so many words take."""
    return (length * bits + 7) // 8
