"""The menu of codings that a planner chooses from where a configuration leaves that to it."""

from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.codecs.sparse import Sparse
from hpfl.learning.codecs.ternary import Ternary
from hpfl.learning.codecs.top_k import TopK
from hpfl.learning.uplink import IDENTITY, Uplink

_HUNDREDTH = TopK(Sparse(0.01))

MENU = (
    IDENTITY,
    Uplink.of([("rounding", Rounding(4))]),
    Uplink.of([("ternary", Ternary())]),
    Uplink.of([("top-k", _HUNDREDTH)]),
    Uplink.of([("top-k", _HUNDREDTH), ("rounding", Rounding(8))]),
)
"""All bits; 4; 1.6; one number of a hundred; the same in 8 bits each."""
