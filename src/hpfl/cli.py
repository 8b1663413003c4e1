"""The front door: `hpfl run`, `hpfl plan`, `hpfl compare` and the rest, each imported when it is called."""

import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import hpfl
from hpfl.lazy import begin_importing, end_importing


class Command(NamedTuple):
    """Where a command is, the line that `hpfl --help` says of it, and the end of its own help."""

    place: str
    help: str
    epilog: str = ""


COMMANDS = {
    "run": Command(
        "hpfl.cli_run:run_command",
        "Train over a simulated mobile edge network and write the results to a folder.",
        "Example: hpfl run quickstart --set data.edge_skew=1 --rounds 50 --out runs/skewed",
    ),
    "demo": Command(
        "hpfl.cli_demo:demo_command",
        "Train HPFL and SHPFL over the same simulated network, everything charged, and compare the time each needs.",
    ),
    "plan": Command("hpfl.cli_plan:plan_command", "Choose who uploads this round and give every link its bandwidth."),
    "compare": Command(
        "hpfl.cli_compare:compare_command",
        "Put several runs into one table and one figure.",
        "Example: hpfl compare runs/hpfl runs/shpfl --target 0.9",
    ),
    "sweep": Command(
        "hpfl.cli_sweep:sweep_command",
        "Run every combination of what is varied with several seeds; leave results, tables, figures and a page.",
        "Example: hpfl sweep quickstart --vary network.bandwidth_hz=1e6,5e6 --vary planning.planner=fastest,random "
        "--seeds 5 --baseline planning.planner=random   or, kept in a file: hpfl sweep study.toml --workers 8",
    ),
    "tune": Command(
        "hpfl.cli_tune:tune_command",
        "Search the best values of keys for each case of a study; leave trials, tables, a figure and a page.",
        "Example: hpfl tune study.toml --trials 30 --workers 8   or, on a cluster: hpfl tune study.toml --engine ray",
    ),
    "figures": Command(
        "hpfl.cli_figures:figures_command",
        "Draw the figures of runs again into DIR/figures, from the results that are there.",
        "Example: hpfl figures runs/quickstart --style ieee --format pdf",
    ),
    "timeline": Command(
        "hpfl.cli_timeline:timeline_command",
        "Draw a run's timeline: every phase of every edge, and when the cloud aggregated.",
        "Example: hpfl timeline runs/quickstart --rounds 1:20",
    ),
    "watch": Command(
        "hpfl.cli_watch:watch_command",
        "Show runs in a browser, live while they go on and replayed when they are over.",
        "Example: hpfl watch runs/quickstart   or, side by side: hpfl watch runs/hpfl runs/shpfl",
    ),
    "theory": Command(
        "hpfl.cli_theory:theory_command",
        "Check the paper's assumptions and Theorem 1 along a run, which is played again from its configuration.",
        "Example: hpfl theory runs/quickstart --points 6",
    ),
    "reproduce": Command(
        "hpfl.cli_reproduce:reproduce_command",
        "Run the sweeps behind figures of the paper, draw them, judge its claims, and write one page: OUT/index.html.",
        "Example: hpfl reproduce time-to-accuracy --quick",
    ),
    "presets": Command("hpfl.cli_show:presets_command", "List the presets, the systems and the planners."),
    "parts": Command(
        "hpfl.cli_parts:parts_command",
        "List the parts that a configuration may name: planners, models, methods and the rest, with their options.",
        "Example: hpfl parts planner",
    ),
    "show": Command(
        "hpfl.cli_show:show_command",
        "Print the whole configuration with units and meanings; it can be saved, changed and run.",
        "Example: hpfl show paper-mnist --system hfl > my.toml",
    ),
    "deploy": Command("hpfl.cli_deploy:deploy_app", "Run a whole deployment: every node a process of its own."),
    "certs": Command("hpfl.cli_certs:certs_app", "Make the certificates with which nodes prove who they are."),
    "cloud": Command(
        "hpfl.cli_deploy:cloud_command",
        "Run the cloud: wait for edges, plan and aggregate rounds, write the results.",
        "Example: hpfl cloud cloud.toml",
    ),
    "edge": Command(
        "hpfl.cli_deploy:edge_command",
        "Run an edge: server to its UEs, client of the cloud. Ends when the run is over, or on SIGTERM.",
        "Example: hpfl edge edge-0.toml",
    ),
    "ue": Command(
        "hpfl.cli_deploy:ue_command",
        "Run a UE: compute on the models its edge sends, upload when asked to. Its data never leave it.",
        "Example: hpfl ue ue-0.toml   and, after training: hpfl ue ue-0.toml --adapt",
    ),
}
"""In the order in which `hpfl --help` lists them."""

_NODES = {"cloud", "edge", "ue"}
"""These go on importing, and say themselves when they are through."""
_SWEEPS = {"sweep", "tune", "reproduce"}
"""These have workers, which begin to import while the command does, but with one of the words below."""
_NO_WORKERS = {"--help", "--no-run", "--engine", "--engine=ray"}

_HOW: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": "rich"}


class LazyCommands(TyperGroup):
    """Lists commands by the table, and imports the one that is called: PyTorch takes a second to import."""

    def __init__(self, **how: Any) -> None:
        listed = {name: TyperCommand(name, help=command.help) for name, command in COMMANDS.items()}
        super().__init__(**how | {"commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, and the arguments left for it."""
        name, _, left = super().resolve_command(ctx, args)
        return name, None if name is None else real_command(name), left


def real_command(name: str) -> Any:
    """The command itself, or the group of commands."""
    found = resolve_name(COMMANDS[name].place)
    if name not in _NODES:
        end_importing()
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, **_HOW)
    alone.command(name, epilog=COMMANDS[name].epilog or None)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="hpfl",
    cls=LazyCommands,
    help="Hierarchical personalised federated learning over mobile edge networks: plan rounds, simulate them, compare.",
    no_args_is_help=True,
    **_HOW,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(hpfl.__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `hpfl` command."""
    begin_importing()
    _begin_workers(sys.argv[1:])
    app()


def _begin_workers(words: Sequence[str]) -> None:
    if _SWEEPS.issuperset(words[:1]) and words and not _NO_WORKERS.intersection(words):
        from hpfl.sweeps.nursery import begin_early

        begin_early()
