"""From a study to its runs: every cell with its name and configuration, all checked before any is run."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hpfl.config import Config, ConfigError, resolve, varied
from hpfl.sweeps.code_version import code_of
from hpfl.sweeps.parts import StudyPart
from hpfl.sweeps.study_file import CASE, SweepStudy

SEED = "seed"
_LONGEST_NAME = 100
MOST_RUNS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of what is varied: a value of each axis, the name of its folder, and its configuration."""

    name: str
    values: Mapping[str, Any]
    config: Config

    @property
    def label(self) -> str:
        """`bandwidth_hz=1e6, planner=joint`, as people read it."""
        return self.name.replace(",", ", ")

    @property
    def short_label(self) -> str:
        """`bandwidth_hz=1e6, joint`: words need no key."""
        named = [word.partition("=")[::2] for word in self.name.split(",")]
        values = {str(value) for value in self.values.values() if isinstance(value, str)}
        return ", ".join(value if value in values else f"{key}={value}" if value else key for key, value in named)


def expanded(study: SweepStudy) -> list[dict[str, Any]]:
    """The values of every cell: cases, times rows of the zip, times the grid; the last axis runs fastest."""
    cases = [{CASE: case["name"], **{key: case[key] for key in sorted(case) if key != "name"}} for case in study.cases]
    zipped = sorted(study.zip_)
    rows = [dict(zip(zipped, values, strict=True)) for values in zip(*(study.zip_[key] for key in zipped), strict=True)]
    grid = sorted(study.grid)
    points = [dict(zip(grid, values, strict=True)) for values in product(*(study.grid[key] for key in grid))]
    return [{**case, **row, **point} for case in cases or [{}] for row in rows or [{}] for point in points]


def num_runs(study: SweepStudy) -> int:
    """How many runs a study has, without making them."""
    rows = len(next(iter(study.zip_.values()), [None]))
    return max(1, len(study.cases)) * rows * math.prod(map(len, study.grid.values())) * len(study.seed_list)


def cells_of(study: SweepStudy, base: Config) -> list[Cell]:
    """Every cell, validated whole; the first that cannot be run is refused by its name."""
    if num_runs(study) > MOST_RUNS:
        raise ConfigError(f"the study has {num_runs(study):,} runs; at most {MOST_RUNS:,} are taken")
    points = expanded(study)
    names = cell_names(points, unnamed={key for case in study.cases for key in case})
    return [_cell(study, base, name, point) for name, point in zip(names, points, strict=True)]


def parts_of(study: SweepStudy, cells: Sequence[Cell]) -> list[StudyPart]:
    """Every run: seed by seed, so that a sweep that is stopped has even cells."""
    made = {cell.name: code_of(cell.config) for cell in cells}
    return [
        StudyPart(
            name=f"{cell.name}/seed-{seed}",
            labels={**cell.values, SEED: seed},
            config=_seeded(cell.config, seed),
            whole=True,
            code=made[cell.name],
        )
        for seed in study.seed_list
        for cell in cells
    ]


def _seeded(config: Config, seed: int) -> Config:
    made = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
    return made.like(config)


def _cell(study: SweepStudy, base: Config, name: str, point: Mapping[str, Any]) -> Cell:
    keys = {**study.set_, **{key: value for key, value in point.items() if key != CASE}}
    try:
        config = varied(base, [f"{key}={toml_text(value)}" for key, value in keys.items()])
        resolve(config)
    except ConfigError as error:
        raise ConfigError(f"cell {name.replace(',', ', ')}: {error}" if point else str(error)) from None
    values = {axis: point[axis] if axis in point else _value_of(config, axis) for axis in study.axes}
    return Cell(name=name, values=values, config=config)


def _value_of(config: Config, key: str) -> Any:
    """What a case that leaves a key alone has there; None of an option, or of the system."""
    section, _, name = key.partition(".")
    value: Any = getattr(getattr(config, section, None), name, None)
    return value.model_dump() if hasattr(value, "model_dump") else value


def toml_text(value: Any) -> str:
    """A value as TOML writes it, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {toml_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_text(inner) for inner in value)}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def cell_names(points: Sequence[Mapping[str, Any]], unnamed: Collection[str] = ()) -> list[str]:
    """A readable folder's name for every cell; where one is long or comes twice, its digest tells it apart.

    Keys that are `unnamed` stand for themselves in the name of a case.
    """
    short = _short_keys({key for point in points for key in point} - set(unnamed))
    named = [{short[key]: _text(value) for key, value in point.items() if key in short} for point in points]
    plain = [_name(words) for words in named]
    seen = Counter(plain)
    return [
        f"{name[:_LONGEST_NAME]}-{_digest(point)}" if seen[name] > 1 or _is_lossy(words, name) else name
        for words, name, point in zip(named, plain, points, strict=True)
    ]


def _name(words: Mapping[str, str]) -> str:
    return ",".join(_safe(text) if key == CASE else f"{key}={_safe(text)}" for key, text in words.items()) or "base"


def _is_lossy(words: Mapping[str, str], name: str) -> bool:
    """Whether a name leaves out anything, but for spaces and commas in the name of a case."""
    told = all(_safe(text) == text for key, text in words.items() if key != CASE)
    return not told or len(name) > _LONGEST_NAME


def _short_keys(keys: set[str]) -> dict[str, str]:
    """The last words of keys, as many as tell them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: key.rpartition(".")[2] if last.count(key.rpartition(".")[2]) == 1 else key for key in keys}


def _text(value: Any) -> str:
    """A value as a word: numbers short."""
    if not isinstance(value, float):
        return value if isinstance(value, str) else json.dumps(value)
    text = re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", f"{value:g}")
    return text if float(text) == value else repr(value)


def _safe(text: str) -> str:
    """A word without what the name of a folder cannot have."""
    return re.sub(r"[^\w.+=:-]+", "-", text).strip("-.") or "-"


def _digest(point: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(point, sort_keys=True).encode(), digest_size=4).hexdigest()
