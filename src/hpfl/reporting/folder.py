"""What a run leaves in its folder, and how another takes its place there; files that are nobody's results stay."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hpfl import atomic

ROUNDS, SUMMARY, CONFIG, TIMELINE = "rounds.jsonl", "summary.json", "config.toml", "timeline.jsonl"
SCENES = "scenes.jsonl"
MODEL, UES, FIGURES, CHECKPOINTS = "model.safetensors", "ues.csv", "figures", "checkpoints"
RUN_ID = "run-id"
"""The name of a deployment, which its messages carry; no simulated run has one."""

_DRAWN, _KINDS = ("progress", "schedule", "latency", "ues", "timeline"), ("png", "svg", "pdf")
_THEORY = ("theory.csv", "theory.json", "theory.png", "theory.svg")
_STATES = "round-*.safetensors"


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, of however many rounds."""
    if not (folder / CONFIG).is_file() or not (folder / ROUNDS).is_file():
        return False
    with (folder / ROUNDS).open("rb") as file:
        start = file.read(11)
    return start in {b"", b'{"round": 1'}


def numbered(folder: Path) -> Iterator[Path]:
    """NAME, NAME-2, NAME-3, ..."""
    yield folder
    yield from (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))


def clear(folder: Path) -> None:
    """Remove what a run left but its records, which its successor holds open."""
    pictures = [folder / FIGURES / f"{name}.{kind}" for name in _DRAWN for kind in _KINDS]
    states = list((folder / CHECKPOINTS).glob(_STATES))
    results = [folder / name for name in (*_THEORY, SUMMARY, MODEL, UES, TIMELINE, SCENES, CONFIG)]
    for path in (*pictures, *states, *results):
        path.unlink(missing_ok=True)
    for within in (folder / FIGURES, folder / CHECKPOINTS):
        atomic.remove_partials(within)
        with suppress(OSError):  # it is not there, or holds what is not ours
            within.rmdir()
