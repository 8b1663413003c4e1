"""What a row of uplink steps means: those at computing first, and then the codecs that an upload is coded with."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hpfl.planning.planners import PLANNERS
from hpfl.registry import Part
from hpfl.training.clock import CLOCKS

AUTO = "auto"
"""In place of a row: the planner chooses each round's coding from a menu."""

Chosen = Sequence[tuple[Part[Any], Any]]
"""Steps with their options, in a row."""


def num_codecs(chosen: Chosen) -> int:
    """How many steps at the end of the row are codecs."""
    codecs = [bool(part.traits["codec"]) for part, _ in chosen]
    return codecs[::-1].index(False) if False in codecs else len(codecs)


def check_auto(uplink: Any, planner: str, clock: str) -> None:
    """Refuse to leave the coding to a planner that chooses none, or to a clock in which uploads carry over."""
    if uplink != AUTO:
        return
    if not PLANNERS.part(planner).traits["codings"]:
        raise ValueError(f'learning.uplink is "auto"; planning.planner = "{planner}" chooses no coding: name one')
    if CLOCKS.part(clock).traits["continuous"]:
        raise ValueError(
            f'learning.uplink is "auto"; with training.clock = "{clock}" uploads go on under the next plan: name one'
        )


def check_order(chosen: Chosen) -> None:
    """Refuse a codec before a step that is none: an upload is coded when it is sent, behind all else."""
    for (codec, _), (behind, _) in pairwise(chosen):
        if codec.traits["codec"] and not behind.traits["codec"]:
            raise ValueError(f"learning.uplink has {behind.name!r} behind the codec {codec.name!r}; codecs come last")
