"""How commands refuse: one clear line on standard error and exit status 2, never a traceback for bad input."""

import functools
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import typer

from hpfl.config import ConfigError
from hpfl.data.dataset import DatasetError
from hpfl.data.shards import PartitionError
from hpfl.learning import LearningError, NonFiniteUpdateError
from hpfl.planning.bandwidth import InfeasibleError
from hpfl.planning.deadline import ConvergenceError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError
from hpfl.training.cloud import DivergedError

P = ParamSpec("P")
R = TypeVar("R")

REFUSALS = (
    ConfigError,
    DatasetError,
    PartitionError,
    CheckpointError,
    OutputError,
    DivergedError,
    LearningError,
    NonFiniteUpdateError,
    InfeasibleError,
    ConvergenceError,
)


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a refusal inside a command into its message and exit status 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except REFUSALS as error:
            refuse(str(error))

    return wrapped


def refuse(message: str) -> NoReturn:
    """Say why on standard error and leave with status 2."""
    for line in message.splitlines():
        sys.stderr.write(f"hpfl: {line}\n")
    raise typer.Exit(2)
