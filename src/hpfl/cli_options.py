"""Arguments and options that several commands take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hpfl.cli_errors import refuse
from hpfl.config import SYSTEMS
from hpfl.reporting.looks import KINDS, LOOKS

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


def _known_formats(given: list[str] | None) -> list[str] | None:
    for kind in given or ():
        if f".{kind}" not in KINDS:
            refuse(f"--format is {kind!r}; there are {', '.join(suffix.lstrip('.') for suffix in KINDS)}")
    return given


def _known_style(given: str) -> str:
    if given not in LOOKS:
        refuse(f"--style is {given!r}; there are {', '.join(LOOKS)}")
    return given


FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="png|svg|pdf",
        callback=_known_formats,
        help="Kind of file of figures; may be repeated, as in --format pdf --format svg.",
        show_default=False,
    ),
]
StyleOption = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="|".join(LOOKS),
        callback=_known_style,
        help="Their look: for a screen, or for one (ieee, 3.5 in) or two columns (ieee-wide, 7.16 in) of a paper: "
        "text of 8 points, no headline, embedded fonts, lines that are told apart without colour.",
    ),
]
SideBySideOption = Annotated[
    int, typer.Option(help="Runs side by side; 0: as many as there are cores, at most 8.", min=0)
]
EngineOption = Annotated[str, typer.Option(help="What plays the runs: local, or ray for a cluster.")]
SharedGpusOption = Annotated[int, typer.Option(help="GPUs that the workers share.", min=0)]
RunCpusOption = Annotated[int, typer.Option(help="CPUs of a run (engine ray).", min=1)]
RunGpusOption = Annotated[float, typer.Option(help="GPUs of a run, or a share: 0.1 (engine ray).", min=0)]
RunDeviceOption = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")]
DataPlaceOption = Annotated[
    Path | None, typer.Option(envvar="HPFL_DATA_DIR", help="Where data sets lie.", show_default=False)
]


def figure_paths(given: Path | None, usual: Path, formats: Sequence[str] | None, *, option: str) -> list[Path]:
    """Where one figure goes: where the option said, of the kind it ends in; or of every format, with no ending said."""
    from hpfl.reporting.style import refuse_unknown_kind

    if not formats:
        refuse_unknown_kind(given or usual)
        return [given or usual]
    if given is not None and given.suffix.lower() in KINDS:
        refuse(
            f"{option} {given} ends in {given.suffix}, and --format says {' and '.join(formats)}; leave out one of them"
        )
    stem = given or usual.with_suffix("")
    return [stem.with_name(f"{stem.name}.{kind}") for kind in dict.fromkeys(formats)]
