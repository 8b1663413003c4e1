"""Keys of the test bench of attacks: who is hostile, and what they do. Nobody is, unless it is written here."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from hpfl.arrays import IntArray
from hpfl.attacks.attack import ATTACKS
from hpfl.attacks.choosing import share_of
from hpfl.config.fields import key
from hpfl.config.named import Names, options_key
from hpfl.config.old_keys import RenewedSection

Number = Annotated[int, Field(ge=0)]


class HostileConfig(RenewedSection):
    """Simulated members that send something else than their updates."""

    section = "hostile"

    attack: Annotated[str, Names(ATTACKS)] = key("none", "what hostile members do; none: nobody is hostile", since=5)
    attack_options: dict[str, Any] = options_key("attack")
    edges: float | list[Number] = key(
        0.0, "hostile edges: a share of all, drawn by the seed, or a list of their numbers", since=5
    )
    ues: float | list[Number] = key(
        0.0, "hostile UEs: a share of those of every edge, drawn by the seed, or a list of their numbers", since=5
    )
    from_round: int = key(0, "models from this round on are attacked", unit="rounds", ge=0, since=5)

    @field_validator("edges", "ues")
    @classmethod
    def _shares(cls, value: float | list[int]) -> float | list[int]:
        if isinstance(value, list) and len(set(value)) < len(value):
            raise ValueError("a number is there twice")
        if isinstance(value, float) and not 0 <= value <= 1:
            raise ValueError("a share should be between 0 and 1; numbers are given as a list")
        return value

    @property
    def on(self) -> bool:
        """Whether anybody is hostile."""
        return self.attack != "none"


def check_hostile(hostile: HostileConfig, ues_of_edges: IntArray) -> None:
    """Refuse members that are not there, and shares that are nobody."""
    counts = {"edges": len(ues_of_edges), "ues": int(ues_of_edges.sum())}
    for name, count in counts.items():
        chosen = getattr(hostile, name)
        if isinstance(chosen, list) and chosen and max(chosen) >= count:
            raise ValueError(f"hostile.{name} has {max(chosen)}; there are 0 to {count - 1}")
    smallest = {"edges": len(ues_of_edges), "ues": int(ues_of_edges.min())}
    for name, count in smallest.items():
        chosen = getattr(hostile, name)
        if hostile.on and isinstance(chosen, float) and chosen and not share_of(count, chosen):
            raise ValueError(f"hostile.{name} is {chosen:g}; of {count} that is none")
