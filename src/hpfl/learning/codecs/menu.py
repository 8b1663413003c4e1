"""The menu of codings that a planner chooses from where a configuration leaves that to it."""

from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.codecs.ternary import Ternary
from hpfl.learning.uplink import IDENTITY, Uplink

MENU = (
    IDENTITY,
    Uplink.of([("rounding", Rounding(8))]),
    Uplink.of([("rounding", Rounding(4))]),
    Uplink.of([("ternary", Ternary())]),
)
"""All bits; 8; 4; 1.6. All are unbiased: what they add is noise, which a planner can weigh against the bits."""
