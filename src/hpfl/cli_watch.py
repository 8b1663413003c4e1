"""`hpfl watch`: show runs in a browser, while they go on or when they are over."""

import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from hpfl.cli_leave import refuse
from hpfl.cli_watching import MISSING, WITH_PARENT
from hpfl.watch.export import exported_page
from hpfl.watch.page_answers import FolderAnswers
from hpfl.watch.run_sources import Sources
from hpfl.watch.shown import WatchError

STATIC = Path(__file__).parent / "watch" / "static"
_POLITE = 10
"""By how much a page lets others go first at the processor."""


def watch_command(  # noqa: PLR0917  every option is passed by name
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Folders of results, a folder of runs, or a cloud's http://HOST:PORT."),
    ],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0: any.", show_default="the first free from 8765 on")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; one that other machines reach needs TLS and a token.")
    ] = "127.0.0.1",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) of this host.", show_default=False)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).", show_default=False)] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="HPFL_WATCH_TOKEN", help="What a browser must bring.", show_default="drawn where needed"),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write one file to send, and end.", show_default=False)
    ] = None,
    to_come: Annotated[bool, typer.Option("--to-come", help="Wait for runs that are not there yet.")] = False,
) -> None:
    """Show runs in a browser, live while they go on and replayed when they are over.

    One RUN, several side by side (seeds of one configuration become a band), a sweep's folder with all runs in it, or
    the address at which a deployed cloud serves its metrics. Nothing is written to the runs, and nothing leaves this
    machine: the page is served on loopback. With --host, other machines can look, over TLS and with a token. Ctrl-C
    ends it.
    """
    try:
        answers = FolderAnswers(Sources.of(runs, to_come=to_come))
        if export is not None:
            _exported(answers, export)
            return
        place = {"host": host, "port": port, "tls_cert": tls_cert, "tls_key": tls_key, "token": token}
        _serve(answers, place, open_=open_)
    except WatchError as error:
        refuse(str(error))


def _serve(answers: FolderAnswers, place: dict[str, Any], *, open_: bool) -> None:
    try:
        from hpfl.watch.serving import PageAddress, PageServer
    except ModuleNotFoundError:
        refuse(MISSING)
    server = PageServer(answers, PageAddress(**place))
    count = len(answers.sources.runs)
    what = "a run to come" if not count else "1 run" if count == 1 else f"{count} runs"
    typer.echo(f"Watching {what} at {server.address}")
    if os.environ.get(WITH_PARENT):
        os.nice(_POLITE)
        threading.Thread(target=_end_with_parent, args=(server.stop,), daemon=True).start()
    if open_:
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.serve()


def _end_with_parent(stop: Callable[[], None]) -> None:
    """Stop when the standard input ends, which it does when its other end is closed or dies."""
    with suppress(OSError, ValueError):
        while sys.stdin.buffer.read(1 << 12):
            pass
    stop()


def _exported(answers: FolderAnswers, target: Path) -> None:
    if not answers.sources.runs:
        raise WatchError("there is no run to export")
    page = exported_page(answers, STATIC)
    try:
        target.write_bytes(page)
    except OSError as error:
        raise WatchError(f"{target} cannot be written to ({error.strerror}); choose another place") from None
    typer.echo(f"Written {target} ({len(page) / 1e6:.1f} MB)")
