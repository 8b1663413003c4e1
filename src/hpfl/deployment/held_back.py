"""How often one peer may be written about: a burst of lines, then few, with the number of those that were left out."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_BURST = 20
_EVERY_S = 10.0
_MOST_KEYS = 4096
"""Peers and events that are told apart; the one that was written about longest ago is forgotten."""


@dataclass
class _Allowance:
    lines: float
    at_s: float
    left_out: int = 0


class HeldBack:
    """Lines by key (what and whose): `burst` at once, then one every `every_s` seconds of the clock."""

    def __init__(
        self, *, burst: int = _BURST, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._every_s, self._clock = burst, every_s, clock
        self._known: OrderedDict[str, _Allowance] = OrderedDict()
        self._lock = threading.Lock()

    def told(self, key: str) -> dict[str, Any] | None:
        """None where a line is to be left out; else what it says besides: how many were, and that more will be."""
        with self._lock:
            return self._weighed(key, self._clock())

    def _weighed(self, key: str, now: float) -> dict[str, Any] | None:
        mine = self._known.pop(key, None) or _Allowance(self._burst, now)
        self._known[key] = mine
        if len(self._known) > _MOST_KEYS:
            self._known.popitem(last=False)
        mine.lines = min(mine.lines + (now - mine.at_s) / self._every_s, self._burst)
        mine.at_s = now
        if mine.lines < 1.0:
            mine.left_out += 1
            return None
        mine.lines -= 1.0
        said, mine.left_out = mine.left_out, 0
        return {"suppressed": said} if said else {"then": "few of the next are told"} if mine.lines < 1.0 else {}
