"""`hpfl parts`: every part that a configuration may name, with its options, their meanings and where it comes from."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hpfl.cli_errors import reported
from hpfl.config.kinds import Kind, described, kind_called, kinds
from hpfl.registry import OURS


@reported
def parts_command(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="Only these, e.g. planner.", show_default="all kinds")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the parts that a configuration may name: planners, models, methods and the rest, with their options.

    A part of another package is named as its entry point is called, any other as module:callable (docs/extending.md).
    """
    chosen = kinds() if kind is None else (kind_called(kind),)
    if as_json:
        told = {one.name: {"keys": list(one.places), "parts": list(described(one))} for one in chosen}
        sys.stdout.write(json.dumps(told, indent=1, default=str) + "\n")
        return
    console = Console(highlight=False)
    for one in chosen:
        console.print(_title(one), soft_wrap=True)
        console.print(_table(one))
        console.print()


def _title(kind: Kind) -> str:
    plural = kind.registry.plural
    return f"[bold]{plural[0].upper()}{plural[1:]}[/bold] ({', '.join(escape(place) for place in kind.places)})"


def _table(kind: Kind) -> Table:
    """A line for each part, and below it one for each of its options."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = list(described(kind))
    for row in rows:
        origin = "" if row["origin"] == OURS else f" [dim](from {escape(row['origin'])})[/dim]"
        table.add_row(escape(row["name"]), escape(row["meaning"]) + origin)
        for option in row["options"]:
            table.add_row("", _option(option))
    if not rows:
        table.add_row("", "[dim]none is shipped; packages bring theirs, and module:callable names one[/dim]")
    return table


def _option(option: dict[str, Any]) -> str:
    value = "needed" if option["needed"] else _toml(option["default"])
    unit = f"[{option['unit']}] " if option["unit"] else ""
    return f"[cyan]{escape(option['name'])} = {escape(value)}[/cyan]  {escape(unit + option['meaning'])}"


def _toml(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else json.dumps(value, default=str)
