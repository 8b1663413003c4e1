"""How commands end early: one clear line on standard error and a status, never a traceback for bad input."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hpfl.cli_leave import leave, refuse
from hpfl.told_errors import LOST, REFUSALS

__all__ = ["REFUSALS", "leave", "refuse", "reported"]

P = ParamSpec("P")
R = TypeVar("R")


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a refusal inside a command into its message and exit status 2, and a model that is lost into 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except REFUSALS as error:
            refuse(str(error))
        except LOST as error:
            leave(str(error), status=1)

    return wrapped
