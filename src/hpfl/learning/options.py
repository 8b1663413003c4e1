"""Options of the methods that have some."""

from typing import Annotated

from pydantic import AfterValidator

from hpfl.learning.objective import OBJECTIVES
from hpfl.options import Options, option


def _known(name: str) -> str:
    OBJECTIVES.part(name)  # its error names the known ones
    return name


class PerFedAvgOptions(Options):
    """Options of method `per-fedavg`."""

    gradient: Annotated[str, AfterValidator(_known)] = option(
        "exact", "personalised gradient: exact, hessian-free, first-order"
    )
    delta: float = option(1e-3, "step of the central difference (gradient hessian-free)", gt=0)
