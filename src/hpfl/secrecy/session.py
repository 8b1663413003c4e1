"""What all members of a cell and their edge must agree on before one secure sum, or several, begin."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from hpfl.quorums import LARGEST_CELL, quorum_of
from hpfl.secrecy.secrecy_errors import SecrecyError

_LARGEST_CONTEXT_BYTES = 4096
_LARGEST_LENGTH = 2**31
_LARGEST_NAME_BYTES = 64


@dataclass(frozen=True)
class Instance:
    """One sum: its name, how many numbers it has, and the bits of a word. Sums are modulo `2**bits`."""

    name: str
    length: int
    bits: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.name.encode()) <= _LARGEST_NAME_BYTES:
            raise SecrecyError(f"an instance is named {self.name[:80]!r}; wanted 1 to {_LARGEST_NAME_BYTES} bytes")
        if not 1 <= self.length <= _LARGEST_LENGTH:
            raise SecrecyError(f"instance {self.name} has {self.length} numbers; wanted 1 to {_LARGEST_LENGTH}")
        if not 1 <= self.bits <= 64:
            raise SecrecyError(f"instance {self.name} has words of {self.bits} bits; wanted 1 to 64")


@dataclass(frozen=True)
class Session:
    """One set-up of a cell and the sums it is for.

    `context` is a digest that the caller makes of all else that has to be the same for everybody. It must never be
    used for two sessions. `slots` is N, the configured seats of the cell: thresholds count against it and not against
    those who happen to be there, so that an edge cannot split a cell in two.
    """

    context: bytes
    slots: int
    instances: tuple[Instance, ...]

    def __post_init__(self) -> None:
        names = [instance.name for instance in self.instances]
        if not 1 <= len(names) <= 8 or len(set(names)) < len(names):
            raise SecrecyError(f"a session has the instances {names[:9]}; wanted 1 to 8 of different names")
        if not 2 <= self.slots <= LARGEST_CELL:
            raise SecrecyError(f"a cell has {self.slots} slots; wanted 2 to {LARGEST_CELL} for a secure sum")
        if not 1 <= len(self.context) <= _LARGEST_CONTEXT_BYTES:
            raise SecrecyError(f"a context has {len(self.context)} bytes; wanted 1 to {_LARGEST_CONTEXT_BYTES}")

    @property
    def threshold(self) -> int:
        """How many must take each step."""
        return quorum_of(self.slots)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all of it; goes into every key, signature and tag."""
        sums = [joined(one.name.encode(), _eight(one.length), _eight(one.bits)) for one in self.instances]
        return hashlib.sha256(joined(b"hpfl secrecy session 1", self.context, _eight(self.slots), *sums)).digest()

    def instance(self, name: str) -> Instance:
        """The instance of a name."""
        for one in self.instances:
            if one.name == name:
                return one
        raise SecrecyError(f"{name[:80]!r} is no sum of this session: {', '.join(one.name for one in self.instances)}")


def joined(*parts: bytes) -> bytes:
    """Parts with their lengths, so that no two lists of parts look alike."""
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _eight(number: int) -> bytes:
    return number.to_bytes(8, "little")
