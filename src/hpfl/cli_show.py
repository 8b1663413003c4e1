"""`hpfl show` and `hpfl presets`: configurations whole, and what there is to begin with."""

import sys

from rich.console import Console
from rich.table import Table

from hpfl.cli_errors import reported
from hpfl.cli_options import SetOption, SourceArgument, SystemOption
from hpfl.config import SYSTEMS, load, preset_names, preset_text, to_toml
from hpfl.planning.planners import PLANNERS


@reported
def show_command(source: SourceArgument, system: SystemOption = None, set_: SetOption = None) -> None:
    """Print the whole configuration with units and meanings; it can be saved, changed and run."""
    sys.stdout.write(to_toml(load(source, system=system, overrides=set_ or ())))


@reported
def presets_command() -> None:
    """List the presets, the systems and the planners."""
    console = Console()
    for title, rows in (
        ("Presets", {name: preset_text(name).splitlines()[0].lstrip("# ") for name in preset_names()}),
        ("Systems (--system)", SYSTEMS),
        ("Planners (--set planning.planner=...)", {name: PLANNERS.part(name).meaning for name in PLANNERS}),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(style="bold", no_wrap=True)
        for name, meaning in rows.items():
            table.add_row(name, meaning)
        console.print(table)
        console.print()
