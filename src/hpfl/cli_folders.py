"""Which folder a command writes to when it is not told: runs/NAME, or runs/NAME-2, runs/NAME-3, ... once that is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpfl.config import Config, ConfigError, fingerprint, load, preset_names
from hpfl.reporting.folder import CONFIG, ROUNDS, numbered
from hpfl.reporting.store import writing

RUNS = Path("runs")
_NUMBERED = re.compile(r"(.+)-\d+")


def home(source: str, system: str | None) -> Path:
    """runs/NAME for a preset, a file, or the configuration of an earlier run, whose own number is left out."""
    path = Path(source)
    stem = path.resolve().parent.name if path.name == CONFIG else path.stem
    numbered = _NUMBERED.fullmatch(stem)
    if path.name == CONFIG and numbered and (RUNS / numbered[1]).exists():
        stem = numbered[1]
    stem = source if source in preset_names() else stem
    return RUNS / (f"{stem}-{system}" if system else stem)


def own_folder(source: str) -> Path | None:
    """The folder of the run whose configuration `source` is."""
    folder = Path(source).parent
    return folder if Path(source).name == CONFIG and (folder / ROUNDS).is_file() else None


@contextmanager
def unused(folder: Path) -> Iterator[Path]:
    """The first of folder, folder-2, folder-3, ... that is not there: made at once, so that no other process takes it.

    It is removed again if nothing has been written to it in the end.
    """
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = next(path for path in numbered(folder) if _made(path))
    try:
        yield made
    finally:
        with suppress(OSError):  # it holds results
            made.rmdir()


def to_resume(folder: Path, config: Config) -> Path:
    """The newest of folder, folder-2, ... that was begun with this configuration; if none was, the newest of all."""
    name = re.compile(rf"{re.escape(folder.name)}(?:-(\d+))?")
    beside = folder.parent.iterdir() if folder.parent.is_dir() else ()
    matches = {path: name.fullmatch(path.name) for path in beside if (path / ROUNDS).is_file()}
    numbers = {path: int(match[1] or 1) for path, match in matches.items() if match}
    newest_first = sorted(numbers, key=lambda path: -numbers[path])
    wanted = fingerprint(config)
    return next((path for path in newest_first if _begun_with(path) == wanted), next(iter(newest_first), folder))


def _made(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def _begun_with(folder: Path) -> str | None:
    try:
        return fingerprint(load(folder / CONFIG))
    except ConfigError:
        return None
