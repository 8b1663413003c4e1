"""The version of what computes a run: our own rooms that decide numbers, libraries, and parts of one's own."""

import hashlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hpfl.config import Config
from hpfl.config.named import rows_of, slots_of
from hpfl.registry import Part
from hpfl.reporting.summary import version_of

ROOMS = ("network", "planning", "data", "learning", "training", "simulation", "config")
"""The rooms in which numbers are made."""
ALONE = ("arrays", "records", "flattened", "units", "rng", "assembly", "dealing", "downlinks")
"""Modules of which the same is true."""
LIBRARIES = ("torch", "numpy", "scipy")


def code_of(config: Config) -> str:
    """Twelve digits of all code that may change the numbers of a run of this configuration.

    Of a part of one's own it is the file it stands in; what that imports in turn is not looked at.
    """
    digest = hashlib.blake2b(_ours().encode(), digest_size=6)
    for source in sorted(_own_sources(config)):
        digest.update(_content(source))
    return f"{version_of('hpfl')}-{digest.hexdigest()}"


@cache
def _ours() -> str:
    root = Path(__file__).parents[1]
    files = [root / f"{name}.py" for name in ALONE]
    files += [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    for library in LIBRARIES:
        digest.update(f"{library} {version_of(library)}".encode())
    return digest.hexdigest()


def _own_sources(config: Config) -> set[str]:
    """The files of parts that are not ours."""
    files = (_file(part) for part in _parts(config) if part.origin != "hpfl")
    return {file for file in files if file}


def _parts(config: Config) -> Iterator[Part[Any]]:
    for name in Config.model_fields:
        section = getattr(config, name)
        for key, slot in slots_of(type(section)).items():
            if (found := slot.found(getattr(section, key))) is not None:
                yield found
        for key, row in rows_of(type(section)).items():
            yield from (part for part, _ in row.chosen(getattr(section, key)))


def _file(part: Part[Any]) -> str:
    made: Any = part.made
    try:
        return inspect.getsourcefile(inspect.unwrap(made) if callable(made) else type(made)) or ""
    except TypeError:
        return ""


@cache
def _content(file: str) -> bytes:
    return Path(file).read_bytes()
