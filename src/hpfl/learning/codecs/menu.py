"""The menu of codings that a planner chooses from where a configuration leaves that to it."""

from collections.abc import Mapping
from typing import Any

from hpfl.learning.codecs import rounding, ternary, top_k  # noqa: F401  they register themselves
from hpfl.learning.uplink import UPLINKS, Uplink

MenuEntry = tuple[tuple[str, Mapping[str, Any]], ...]


def _largest(share: float) -> MenuEntry:
    """The largest numbers alone, in 8 bits; what is left out comes later."""
    return ("top-k", {"share": share}), ("rounding", {"bits": 8})


ENTRIES: tuple[MenuEntry, ...] = (
    (),
    (("rounding", {"bits": 8}),),
    (("rounding", {"bits": 4}),),
    (("ternary", {}),),
    _largest(0.04),
    _largest(0.02),
    _largest(0.01),
)
"""All bits; 8; 4; 1.6; and the largest 4, 2 and 1 % in 8 bits: codecs by name and options, the fewest bits last.

The first are unbiased: what they add is noise, which a planner can weigh against the bits. The others feed back what
they leave out: they add no noise, and delay. All of these keep one error between them, which changes hands when the
coding changes. One that does not feed back leaves it alone: it waits until one comes that does.
"""
UNCHOSEN = 3
"""The entry of planners that choose none: of those that keep nothing, the one with the fewest bits."""

MENU = tuple(Uplink.of([(name, UPLINKS.get(name, **options)()) for name, options in entry]) for entry in ENTRIES)
"""The chains themselves."""
