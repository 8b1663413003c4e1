"""How a command leaves early: a line on standard error and a status."""

import sys
from typing import NoReturn

import typer


def refuse(message: str) -> NoReturn:
    """Say why on standard error and leave with status 2."""
    leave(message, status=2)


def leave(message: str, *, status: int) -> NoReturn:
    """Say why on standard error and leave with a status."""
    for line in message.splitlines():
        sys.stderr.write(f"hpfl: {line}\n")
    raise typer.Exit(status)
