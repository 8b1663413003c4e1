"""What a row of uplink steps means: those at computing first, and then the codecs that an upload is coded with."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hpfl.registry import Part

Chosen = Sequence[tuple[Part[Any], Any]]
"""Steps with their options, in a row."""


def num_codecs(chosen: Chosen) -> int:
    """How many steps at the end of the row are codecs."""
    codecs = [bool(part.traits["codec"]) for part, _ in chosen]
    return codecs[::-1].index(False) if False in codecs else len(codecs)


def check_order(chosen: Chosen) -> None:
    """Refuse a codec before a step that is none: an upload is coded when it is sent, behind all else."""
    for (codec, _), (behind, _) in pairwise(chosen):
        if codec.traits["codec"] and not behind.traits["codec"]:
            raise ValueError(f"learning.uplink has {behind.name!r} behind the codec {codec.name!r}; codecs come last")
