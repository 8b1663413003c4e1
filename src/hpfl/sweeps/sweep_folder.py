"""The folder of a sweep: which sweep it is of, said in files with which it can be repeated, and who may use it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.config import Config, ConfigError, load, preset_names, to_toml
from hpfl.reporting.store import OutputError, writing
from hpfl.sweeps.cells import toml_text
from hpfl.sweeps.study_file import SweepStudy, flat, is_study, read_study

STUDY, BASE = "study.toml", "base.toml"


@dataclass(frozen=True, kw_only=True)
class BasedStudy:
    """A study with the configuration that is its base."""

    study: SweepStudy
    base: Config


def open_study(path: Path) -> BasedStudy:
    """The study in a file, with its base; a base that is a file is looked for beside the study first."""
    study = read_study(path)
    return BasedStudy(study=study, base=base_of(study, path.parent))


def base_of(study: SweepStudy, beside: Path = Path()) -> Config:
    """The configuration that a study begins with."""
    if study.base in preset_names():
        return load(study.base)
    here = beside / study.base
    return load(here if here.is_file() else study.base)


def claim(out: Path, wanted: BasedStudy) -> None:
    """Make the folder this sweep's, or go on in it if it is; that of another sweep, or of something else, is refused.

    More values, seeds, targets and outputs are the same sweep; another base, other keys or settings are not.
    """
    difference = _difference(out, wanted)
    if difference:
        raise OutputError(f"{out} {difference}; choose another --out")
    write_study(out, wanted, STUDY)


def write_study(out: Path, wanted: BasedStudy, name: str) -> None:
    """Leave a study in a folder, and its base beside it where that is no preset."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        study = wanted.study
        if study.base not in preset_names():
            atomic.write_text(out / BASE, to_toml(wanted.base))
            study = study.model_copy(update={"base": BASE})
        atomic.write_text(out / name, study_text(study))


def is_free(out: Path, wanted: BasedStudy) -> bool:
    """Whether the sweep may use this folder."""
    return not _difference(out, wanted)


def home_of(path: Path) -> Path | None:
    """The folder of the sweep whose study this file is."""
    return path.parent if path.name == STUDY and (path.parent / "parts").is_dir() else None


def is_new(out: Path) -> bool:
    """Whether there is nothing in this folder, or it is not there yet."""
    return not out.exists() or (out.is_dir() and all(path.name == ".lock" for path in out.iterdir()))


def _difference(out: Path, wanted: BasedStudy) -> str:
    """Why this folder is not the sweep's; nothing where it is, or is empty."""
    if is_new(out):
        return ""
    if not out.is_dir():
        return "is a file"
    if not is_study(out / STUDY):
        return "is not empty, and no sweep's folder"
    try:
        return other_than(wanted, open_study(out / STUDY))
    except ConfigError as error:
        return f"holds a sweep that cannot be read ({error})"


def other_than(wanted: BasedStudy, there: BasedStudy, what: str = "sweep") -> str:
    """What of base, axes and settings is another in the study that is there; nothing where none is."""
    mine, theirs = wanted.study, there.study
    if there.base != wanted.base:
        return f"holds another {what}: its base is another"
    if theirs.axes != mine.axes:
        varied = ", ".join(theirs.axes) or "seeds alone"
        return f"holds another {what}: it varies {varied}, and this one {', '.join(mine.axes) or 'seeds alone'}"
    changed = next((key for key in {**theirs.set_, **mine.set_} if theirs.set_.get(key) != mine.set_.get(key)), None)
    return f"holds another {what}: {changed} is set otherwise there" if changed else ""


def study_text(study: SweepStudy) -> str:
    """A study as TOML that people read: `section.key = value`, one below the other."""
    tree = study.to_tree()
    lines = [f"{name} = {toml_text(tree[name])}\n" for name in _SINGLE if name in tree]
    lines += [f"\n[{name}]\n{_keys(tree[name])}" for name in ("set", "grid", "zip") if tree.get(name)]
    lines += [f"\n[[cases]]\n{_keys(case)}" for case in tree.get("cases", ())]
    if tune := dict(tree.get("tune", {})):
        space = flat(tune.pop("space", {}))
        lines += [f"\n[tune]\n{_keys(tune)}", f"\n[tune.space]\n{_keys(space)}" if space else ""]
    return "".join(lines)


_SINGLE = ("base", "seeds", "targets", "baseline", "outputs")


def _keys(keys: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_text(value)}\n" for key, value in keys.items())
