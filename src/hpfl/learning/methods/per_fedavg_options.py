"""The options of Per-FedAvg, apart from it: models are also trained where pydantic is not installed."""

from pydantic import field_validator

from hpfl.learning.objective import OBJECTIVES
from hpfl.options import Options, option


class PerFedAvgOptions(Options):
    """How the Hessian in the gradient is dealt with."""

    gradient: str = option("exact", "how the Hessian is dealt with: exact, hessian-free, first-order")
    delta: float = option(1e-3, "step of the central difference, for hessian-free", gt=0)

    @field_validator("gradient")
    @classmethod
    def _known(cls, name: str) -> str:
        OBJECTIVES.get(name)
        return name
