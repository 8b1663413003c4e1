"""The menu of codings that a planner chooses from where a configuration leaves that to it."""

from collections.abc import Mapping
from typing import Any

from hpfl.learning.codecs import rounding, ternary, top_k  # noqa: F401  they register themselves
from hpfl.learning.uplink import UPLINKS, Uplink

_HUNDREDTH = ("top-k", {"share": 0.01})

ENTRIES: tuple[tuple[tuple[str, Mapping[str, Any]], ...], ...] = (
    (),
    (("rounding", {"bits": 4}),),
    (("ternary", {}),),
    (_HUNDREDTH,),
    (_HUNDREDTH, ("rounding", {"bits": 8})),
)
"""All bits; 4; 1.6; one number of a hundred; the same in 8 bits each: codecs by name and options."""

MENU = tuple(Uplink.of([(name, UPLINKS.get(name, **options)()) for name, options in entry]) for entry in ENTRIES)
"""The chains themselves."""
