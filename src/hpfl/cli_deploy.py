"""`hpfl deploy`, `hpfl cloud`, `hpfl edge`, `hpfl ue`: real processes over mutual TLS."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hpfl.cli_errors import leave, refuse, reported
from hpfl.cli_options import SetOption
from hpfl.cli_watching import watched
from hpfl.lazy import end_importing
from hpfl.training.cloud_step import DivergedError

deploy_app = typer.Typer(no_args_is_help=True, help="Run a whole deployment: every node a process of its own.")

NodeFile = Annotated[Path, typer.Argument(metavar="FILE.toml", help="This node's file; see docs/deploy.md.")]

CheckOption = Annotated[
    bool,
    typer.Option("--check", help="Look at everything this node needs, start nothing, and say what is wrong."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="With --check: the findings as one JSON object.")]


@deploy_app.command("local", epilog="Example: hpfl deploy local quickstart --edges 2 --ues-per-edge 3")
@reported
def local_command(  # noqa: PLR0917  every option is passed by name
    source: Annotated[
        str | None, typer.Argument(metavar="PRESET_OR_FILE", help="The experiment.", show_default="quickstart")
    ] = None,
    edges: Annotated[int | None, typer.Option(help="Edge processes.", min=1, show_default="2")] = None,
    ues_per_edge: Annotated[
        int | None, typer.Option(help="UE processes under each edge.", min=1, show_default="3")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for everything.", show_default="runs/deployed")] = None,
    set_: SetOption = None,
    rounds: Annotated[int | None, typer.Option(help="Same as --set training.rounds=T.", show_default=False)] = None,
    pacing: Annotated[
        bool | None,
        typer.Option(
            "--pacing/--no-pacing", help="Uploads take the seconds that were planned, or none.", show_default="pacing"
        ),
    ] = None,
    time_scale: Annotated[
        float | None, typer.Option(help="Planned seconds are multiplied by this.", min=1e-6, show_default="1.0")
    ] = None,
    serve: Annotated[
        bool | None, typer.Option("--serve", help="Stay up after training, for `hpfl ue --adapt`.")
    ] = None,
    metrics: Annotated[bool | None, typer.Option("--metrics", help="Serve Prometheus metrics on loopback.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Start the nodes of an earlier run in OUT again; --rounds may be more.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the run in a browser while it goes on; see hpfl watch.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Make certificates, start cloud, edges and UEs as processes on loopback, and watch them train.

    OUT holds certs/, nodes/ (one TOML file each: examples for separate machines), logs/ (JSON lines) and run/ with
    rounds.jsonl, summary.json, audit.jsonl and the rest. A process that dies is started again. Ctrl-C stops after the
    round; `--resume` goes on.
    """
    _prepare()
    from hpfl.cli_deploy_live import supervised
    from hpfl.cli_deploy_nodes import Asked, begun, resumed

    folder = out or Path("runs") / "deployed"
    asked = Asked(
        source=source,
        edges=edges,
        ues_per_edge=ues_per_edge,
        changes=[*(set_ or []), *([f"training.rounds={rounds}"] if rounds is not None else [])],
        paced=pacing,
        time_scale=time_scale,
        serve=serve,
        metrics=metrics,
    )
    with _refusing():
        say = partial(Console(quiet=quiet).print, markup=False, highlight=False, soft_wrap=True)
        nodes = resumed(folder, asked) if resume else begun(folder, asked, say)
    with watched(folder / "run", wanted=watch):
        status = supervised(nodes, folder, quiet=quiet)
        if status:
            raise typer.Exit(status)


@reported
def cloud_command(
    file: NodeFile,
    out: Annotated[Path | None, typer.Option(help="Folder for the results instead of the file's.")] = None,
    no_pacing: Annotated[bool, typer.Option("--no-pacing", help="Uploads go as fast as the links allow.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Go on serving the finished model.")] = False,
    check: CheckOption = False,
    json_: JsonOption = False,
) -> None:
    """Run the cloud: wait for edges, plan and aggregate rounds, write the results.

    Started again after a crash it goes on from its last checkpoint, and edges come back by themselves. SIGTERM ends it
    after the round.
    """
    _prepare(listens=not check)
    from hpfl.deployed import run_cloud, stopping_on_signals
    from hpfl.deployment.settings import CloudNodeSettings

    settings: Any = _settings(CloudNodeSettings, file)
    settings.out = str(out.resolve()) if out else settings.out
    settings.paced = settings.paced and not no_pacing
    settings.serve = settings.serve or serve
    if _checked(settings, check=check, json_=json_):
        return
    with _refusing(), stopping_on_signals() as stop:
        completed = run_cloud(settings, stop=stop)
    if not completed:
        raise typer.Exit(130)


@reported
def edge_command(file: NodeFile, check: CheckOption = False, json_: JsonOption = False) -> None:
    """Run an edge: server to its UEs, client of the cloud. Ends when the run is over, or on SIGTERM."""
    _prepare(listens=not check)
    from hpfl.deployment.processes import run_edge
    from hpfl.deployment.settings import EdgeNodeSettings

    settings: Any = _settings(EdgeNodeSettings, file)
    if _checked(settings, check=check, json_=json_):
        return
    with _refusing():
        asyncio.run(run_edge(settings))


@reported
def ue_command(
    file: NodeFile,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Fetch the global model, adapt it to the own data, save it, and end.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where --adapt saves the personal model.")] = Path("personal.safetensors"),
    check: CheckOption = False,
    json_: JsonOption = False,
) -> None:
    """Run a UE: compute on the models its edge sends, upload when asked to. Its data never leave it."""
    _prepare()
    from hpfl.deployment.deliveries import NobodyError
    from hpfl.deployment.processes import adapt_ue, run_ue
    from hpfl.deployment.settings import UeNodeSettings

    settings: Any = _settings(UeNodeSettings, file)
    if _checked(settings, check=check, json_=json_):
        return
    with _refusing():
        if not adapt:
            asyncio.run(run_ue(settings))
            return
        try:
            before, after = asyncio.run(adapt_ue(settings, out))
        except NobodyError as error:  # the edge may have it later
            leave(str(error), status=1)
    Console().print(f"accuracy on {settings.name}'s own test data: {before:.3f} before, {after:.3f} after adaptation")
    Console().print(f"personal model in {out}", soft_wrap=True)


def _checked(settings: Any, *, check: bool, json_: bool) -> bool:
    """Whether only a check was asked for; then it has been made."""
    if json_ and not check:
        refuse("--json says how --check answers; give both")
    if check:
        from hpfl.cli_deploy_check import report_check

        report_check(settings, as_json=json_)
    return check


class _refusing:  # noqa: N801  reads as a word at its uses
    """Turn what no new start would mend, a fault of this node's own or a lost model, into a message and status 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from hpfl.deployment.issued import CertificateError
        from hpfl.deployment.settings import SettingsError

        known: tuple[type[BaseException], ...] = (CertificateError, SettingsError, DivergedError)
        if "grpc" in sys.modules:
            from hpfl.deployment.deliveries import NobodyError

            known = (*known, NobodyError)
        if isinstance(error, known):
            refuse(str(error))


def _settings(kind: Any, file: Path) -> Any:
    from hpfl.deployment.environment import end_with_supervisor
    from hpfl.deployment.logs import log_to
    from hpfl.deployment.settings import read_settings

    end_importing()
    end_with_supervisor()
    with _refusing():
        settings = read_settings(kind, file)
    log_to(settings.name, level=settings.log)
    return settings


def _prepare(*, listens: bool = False) -> None:
    """Set what gRPC reads at its first import, and say what is missing where the extra is not installed."""
    from hpfl.deployment.environment import prepare
    from hpfl.deployment.handshakes import note_handshakes

    if listens:
        note_handshakes()
    prepare()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        import cryptography  # noqa: F401
        import grpc  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        refuse(f"{error.name} is not installed; deployment needs `pip install 'hpfl[deploy]'`")
