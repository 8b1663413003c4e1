"""The folder of a search: which one it is of, said in a file with which it can be gone on with."""

from pathlib import Path

from hpfl.config import ConfigError
from hpfl.reporting.store import OutputError
from hpfl.sweeps.study_file import flat
from hpfl.sweeps.sweep_folder import BasedStudy, is_new, open_study, other_than, write_study

TUNE = "tune.toml"
_MAY_DIFFER = ("trials", "fresh_seeds")


def claim_search(out: Path, wanted: BasedStudy) -> None:
    """Make the folder this search's, or go on in it if it is; that of another, or of something else, is refused.

    More trials, fresh seeds and outputs are the same search. Whatever else differs makes other trials.
    """
    if difference := _difference(out, wanted):
        raise OutputError(f"{out} {difference}; choose another --out")
    write_study(out, wanted, TUNE)


def is_free(out: Path, wanted: BasedStudy) -> bool:
    """Whether the search may use this folder."""
    return not _difference(out, wanted)


def home_of_search(path: Path) -> Path | None:
    """The folder of the search whose study this file is."""
    return path.parent if path.name == TUNE and (path.parent / "parts").is_dir() else None


def _difference(out: Path, wanted: BasedStudy) -> str:
    """Why this folder is not the search's; nothing where it is, or is empty."""
    if is_new(out):
        return ""
    if not out.is_dir():
        return "is a file"
    if not (out / TUNE).is_file():
        return "is not empty, and no search's folder"
    try:
        there = open_study(out / TUNE)
    except ConfigError as error:
        return f"holds a search that cannot be read ({error})"
    return other_than(wanted, there, what="search") or _other_search(wanted, there)


def _other_search(wanted: BasedStudy, there: BasedStudy) -> str:
    mine, theirs = wanted.study, there.study
    for name, one, other in (
        ("seeds", mine.seed_list, theirs.seed_list),
        ("targets", mine.targets, theirs.targets),
        ("values of its axes", (mine.grid, mine.zip_, mine.cases), (theirs.grid, theirs.zip_, theirs.cases)),
    ):
        if one != other:
            return f"holds another search: its {name} are others"
    old, new = ({**study.tune, "space": flat(study.tune.get("space"))} for study in (theirs, mine))
    changed = next((key for key in {**old, **new} if key not in _MAY_DIFFER and old.get(key) != new.get(key)), "")
    return f"holds another search: its tune.{changed} is another" if changed else ""
