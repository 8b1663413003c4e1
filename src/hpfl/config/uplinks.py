"""What a row of uplink steps means: those at computing first, and then the codecs that an upload is coded with."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hpfl.planning.planners import PLANNERS
from hpfl.registry import Part
from hpfl.training.clock import CLOCKS

AUTO = "auto"
"""In place of a row: the planner chooses each round's coding from a menu; where it chooses none, ternary."""

Chosen = Sequence[tuple[Part[Any], Any]]
"""Steps with their options, in a row."""


def num_codecs(chosen: Chosen) -> int:
    """How many steps at the end of the row are codecs."""
    codecs = [bool(part.traits["codec"]) for part, _ in chosen]
    return codecs[::-1].index(False) if False in codecs else len(codecs)


def chooses_coding(planner: str, clock: str) -> bool:
    """Whether "auto" is a menu for the planner: it must know how to choose, and uploads may not outlast a plan."""
    return bool(PLANNERS.part(planner).traits["codings"]) and not CLOCKS.part(clock).traits["continuous"]


def check_order(chosen: Chosen) -> None:
    """Refuse a codec before a step that is none: an upload is coded when it is sent, behind all else."""
    for (codec, _), (behind, _) in pairwise(chosen):
        if codec.traits["codec"] and not behind.traits["codec"]:
            raise ValueError(f"learning.uplink has {behind.name!r} behind the codec {codec.name!r}; codecs come last")
