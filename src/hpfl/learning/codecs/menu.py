"""The menu of codings that a planner chooses from where a configuration leaves that to it."""

from collections.abc import Mapping
from typing import Any

from hpfl.learning.codecs import rounding, ternary  # noqa: F401  they register themselves
from hpfl.learning.uplink import UPLINKS, Uplink

ENTRIES: tuple[tuple[tuple[str, Mapping[str, Any]], ...], ...] = (
    (),
    (("rounding", {"bits": 8}),),
    (("rounding", {"bits": 4}),),
    (("ternary", {}),),
)
"""All bits; 8; 4; 1.6: codecs by name and options.

All are unbiased: what they add is noise, which a planner can weigh against the bits.
"""

MENU = tuple(Uplink.of([(name, UPLINKS.get(name, **options)()) for name, options in entry]) for entry in ENTRIES)
"""The chains themselves."""
