"""Arguments and options that several commands take."""

from typing import Annotated

import typer

from hpfl.config import SYSTEMS

SourceArgument = Annotated[
    str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset (`hpfl presets`) or a TOML file.")
]
SystemOption = Annotated[
    str | None, typer.Option("--system", help=f"Run as another system: {', '.join(SYSTEMS)}.", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key, e.g. data.edge_skew=1. May be repeated."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster (engine ray).",
        show_default="RAY_ADDRESS; else one is started on this machine",
    ),
]
