"""A test bench for combine rules: what hostile UEs or edges of a simulated run send in place of their updates."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.attacks.attack import ATTACKS, Attack, Labelled

__all__ = ["ATTACKS", "Attack", "Labelled"]

_KNOWN_BY = {"hpfl.attacks.attack": ("ATTACKS", "Attack", "Labelled")}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
