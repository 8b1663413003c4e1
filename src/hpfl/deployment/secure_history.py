"""With whom a UE's sketch and update on a model were summed: a second sum, with others, would show what is between."""

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

import numpy as np

from hpfl import atomic
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.wire import Tag
from hpfl.secrecy import SecrecyError

HISTORY_FILE = "secure-sums.txt"
SUMMED_BEFORE = "was summed before with others"
"""What a UE says that sits out of another sum of the same."""

_REMEMBERED = 4096
_LINE = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{32})")


class SumHistory:
    """What one UE has uncovered, also before it was started again: its last sums, a line each in a file.

    It may uncover a sum again with the same UEs, whose sum it is again: an edge or a cloud that was killed goes on. Two
    thresholds of UEs that do so with different lists would have more than a third of the cell in common. A sum is one
    of the run, of the model by its digest, and of what is summed: other numbers of rounds make no other sum of it.
    `alike` sums of sketch and update are of the same UEs too: the difference would show the sketches of those who left.
    """

    def __init__(self, folder: Path, *, alike: bool = False) -> None:
        self._path, self._alike = folder / HISTORY_FILE, alike
        self._with: OrderedDict[bytes, bytes] = OrderedDict()
        self._expected: dict[bytes, bytes] = {}
        self._lock = threading.RLock()  # what is written down while there is time may be overtaken by a newer session
        try:
            self._read()
        except OSError as error:
            raise SettingsError(f"{self._path}, with whom sums were, cannot be read: {error.strerror}") from None

    def check(self, tag: Tag, of: str, survivors: Collection[int]) -> None:
        """Refuse a sum with other UEs than were uncovered before."""
        listed = _list(survivors)
        if self._with.get(self._key(tag, of), listed) != listed:
            what = "sketch or the update" if self._alike else of
            raise SecrecyError(f"the {what} {SUMMED_BEFORE}, and two sums would show what is between them")

    def expect(self, tag: Tag, sums: Collection[str], members: Collection[int]) -> None:
        """Write down ahead whom sums will be of if nobody leaves: then nothing has to be written when there is haste.

        In this process another list may still come before anything is uncovered. One that is started again cannot know
        whether this one was.
        """
        listed = _list(members)
        with self._lock:
            new = {key for key in (self._key(tag, of) for of in sums) if key not in self._with}
            if new and {self._expected.get(key) for key in new} != {listed}:
                self._write(new, listed, "are summed")
            self._expected = dict.fromkeys(new, listed)

    def has(self, tag: Tag, of: str, survivors: Collection[int]) -> bool:
        """Whether it is written down with whom a sum is uncovered; it is uncovered from now on."""
        key, listed = self._key(tag, of), _list(survivors)
        with self._lock:
            if key not in self._with and self._expected.get(key) == listed:
                self._remember(key, listed)
            return self._with.get(key) == listed

    def note(self, tag: Tag, of: str, survivors: Collection[int]) -> None:
        """What masks a sum is about to be uncovered; refused where that cannot be written down."""
        with self._lock:
            if not self.has(tag, of, survivors):
                key, listed = self._key(tag, of), _list(survivors)
                self._write([key], listed, f"the {of} is summed")
                self._remember(key, listed)

    def _write(self, keys: Collection[bytes], listed: bytes, what: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(b"".join(key + b" " + listed + b"\n" for key in sorted(keys)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SecrecyError(f"with whom {what} cannot be written down: {error.strerror}") from None

    def _remember(self, key: bytes, listed: bytes) -> None:
        self._with[key] = listed
        if len(self._with) > _REMEMBERED:
            self._with.popitem(last=False)

    def _key(self, tag: Tag, of: str) -> bytes:
        return _digest(tag.run.encode(), tag.base, b"both" if self._alike else of.encode())

    def _read(self) -> None:
        """The last lines; the file is written anew where it is damaged, or longer than what is remembered."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        for line in content.splitlines()[-_REMEMBERED:]:
            found = _LINE.fullmatch(line)
            if found is not None:
                self._remember(found[1], found[2])
        whole = b"".join(key + b" " + listed + b"\n" for key, listed in self._with.items())
        if whole != content:
            atomic.write_bytes(self._path, whole)


def _list(survivors: Collection[int]) -> bytes:
    pairs = np.full((len(survivors), 2), 8, dtype="<u8")  # each number with its length before it, as `_digest` has it
    pairs[:, 1] = sorted(survivors)
    return _hashed(pairs.tobytes())


def _digest(*parts: bytes) -> bytes:
    return _hashed(b"".join(len(part).to_bytes(8, "little") + part for part in parts))


def _hashed(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()
