"""A page beside a run: a process of its own, which reads the run's folder and can neither slow nor stop the run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import typer

from hpfl.cli_leave import refuse

MISSING = "hpfl watch needs Starlette and uvicorn: pip install 'hpfl[watch]'"
WITH_PARENT = "HPFL_WATCH_WITH_PARENT"
"""Set for a page that ends with the process that started it, which it knows by the end of its standard input."""
_START = "from hpfl.cli import main; main()"
_LOOK_S = 0.2


@contextmanager
def watched(folder: Path, *, wanted: bool) -> Iterator[None]:
    """Have a page show the run that goes to `folder`. At a terminal it stays when the run is over, until Ctrl-C."""
    if not wanted:
        yield
        return
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        refuse(MISSING)
    page = _started(folder)
    try:
        yield
        if sys.stdin.isatty() and sys.stdout.isatty() and page.poll() is None:
            _stay(page)
    finally:
        _end(page)


def _started(folder: Path) -> subprocess.Popen[bytes]:
    """The page's process: away from the terminal's Ctrl-C, behind the run at the processor, its output ours."""
    command = [sys.executable, "-c", _START, "watch", str(folder), "--to-come"]
    command += ["--open" if sys.stdout.isatty() else "--no-open"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, env={**os.environ, WITH_PARENT: "1"}, start_new_session=True
    )


def _stay(page: subprocess.Popen[bytes]) -> None:
    typer.echo("The page stays until Ctrl-C.")
    try:
        while page.poll() is None:
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        typer.echo("")


def _end(page: subprocess.Popen[bytes]) -> None:
    """Close its input, by which it ends; a page that hangs is killed."""
    assert page.stdin is not None
    page.stdin.close()
    try:
        page.wait(3.0)
    except subprocess.TimeoutExpired:
        page.kill()
        page.wait()
