"""How commands end early: one clear line on standard error and a status, never a traceback for bad input."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hpfl.cli_leave import leave, refuse
from hpfl.config import ConfigError
from hpfl.data.dataset import DatasetError
from hpfl.data.shards import PartitionError
from hpfl.learning import LearningError, NonFiniteUpdateError
from hpfl.network.radio import ChannelError
from hpfl.planning.bandwidth import InfeasibleError
from hpfl.planning.checking import PlanError
from hpfl.planning.deadline import ConvergenceError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError
from hpfl.training.cloud_step import DivergedError
from hpfl.training.combine import CombineError

__all__ = ["REFUSALS", "leave", "refuse", "reported"]

P = ParamSpec("P")
R = TypeVar("R")

REFUSALS = (
    ConfigError,
    DatasetError,
    PartitionError,
    CheckpointError,
    OutputError,
    LearningError,
    ChannelError,
    InfeasibleError,
    ConvergenceError,
    PlanError,
    CombineError,
)


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a refusal inside a command into its message and exit status 2, and a model that is lost into 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except REFUSALS as error:
            refuse(str(error))
        except (DivergedError, NonFiniteUpdateError) as error:
            leave(str(error), status=1)

    return wrapped
