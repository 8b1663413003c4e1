"""`hpfl watch`: show runs in a browser, while they go on or when they are over."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hpfl.cli_leave import refuse
from hpfl.watch.answers import FolderAnswers
from hpfl.watch.sources import Sources, WatchError

MISSING = "hpfl watch needs Starlette and uvicorn: pip install 'hpfl[watch]'"


def watch_command(  # noqa: PLR0917  every option is passed by name
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of results, or folders of runs.")],
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
        typer.Option(envvar="HPFL_WATCH_TOKEN", help="What a browser must bring.", show_default="drawn if needed"),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
) -> None:
    """Show runs in a browser, live while they go on and replayed when they are over. Ctrl-C ends it."""
    try:
        from hpfl.watch.serving import PageServer, Place
    except ModuleNotFoundError:
        refuse(MISSING)
    try:
        answers = FolderAnswers(Sources.of([Path(run) for run in runs]))
        server = PageServer(answers, Place(host=host, port=port, tls_cert=tls_cert, tls_key=tls_key, token=token))
    except WatchError as error:
        refuse(str(error))
    typer.echo(f"Watching {len(answers.sources.runs)} run(s) at {server.address}   (Ctrl-C ends it)")
    if open_:
        webbrowser.open(server.address)
    server.serve()
