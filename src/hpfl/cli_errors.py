"""How commands end early: one clear line on standard error and a status, never a traceback for bad input."""

import functools
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import typer

from hpfl.told_errors import LOST, REFUSALS

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


def refuse(message: str) -> NoReturn:
    """Say why on standard error and leave with status 2."""
    leave(message, status=2)


def leave(message: str, *, status: int) -> NoReturn:
    """Say why on standard error and leave with a status."""
    for line in message.splitlines():
        sys.stderr.write(f"hpfl: {line}\n")
    raise typer.Exit(status)
