"""Keys of the living network: who takes part, who leaves, what fails, who moves. All off by default."""

from typing import Annotated

from pydantic import Field, field_validator

from hpfl.config.fields import key
from hpfl.config.old_keys import RenewedSection

Speeds = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]


class LifeConfig(RenewedSection):
    """What changes from round to round."""

    section = "life"

    sample_fraction: float = key(1.0, "share of an edge's UEs that take part in an edge round", gt=0, le=1)
    sample_count: int = key(0, "UEs of an edge that take part, instead of a share; 0 goes by the share", ge=0)
    leave: float = key(0.0, "chance per round that a UE leaves", ge=0, le=1)
    come_back: float = key(0.5, "chance per round that a UE that left comes back", ge=0, le=1)
    deadline_s: float = key(0.0, "edges go on without UEs that take longer in a round; 0 waits for all", unit="s", ge=0)
    ue_failure: float = key(0.0, "chance per round that a UE's upload arrives spoilt", ge=0, le=1)
    edge_failure: float = key(
        0.0, "chance per round that an edge's upload arrives spoilt and is sent again", ge=0, le=1
    )
    edge_death: float = key(0.0, "chance per round that an edge dies, loses its update and starts afresh", ge=0, le=1)
    speed_m_per_s: Speeds = key([0.0, 0.0], "UEs' speeds from waypoint to waypoint, [low, high]; 0 stays", unit="m/s")
    idle_s: float = key(1.0, "how long the cloud waits when no UE is there", unit="s", gt=0)

    @field_validator("speed_m_per_s")
    @classmethod
    def _speeds(cls, value: list[float]) -> list[float]:
        if value[0] > value[1] or (value[1] > 0 and value[0] <= 0):
            raise ValueError("[low, high] needs 0 < low <= high, or [0, 0] to stay")
        return value

    @property
    def moves(self) -> bool:
        """Whether UEs walk."""
        return self.speed_m_per_s[1] > 0

    @property
    def loses_ues(self) -> bool:
        """Whether a UE can be left out of an edge round it has begun."""
        return bool(self.leave or self.deadline_s or self.ue_failure or self.moves)

    @property
    def on(self) -> bool:
        """Whether anything here differs from a network in which all UEs always take part."""
        samples = self.sample_fraction < 1 or self.sample_count > 0
        return bool(samples or self.loses_ues or self.edge_failure or self.edge_death)
