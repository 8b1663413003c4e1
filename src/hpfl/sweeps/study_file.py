"""A study as it is written: a base, what is varied in which way, seeds, targets, a baseline and outputs."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from hpfl.config import ConfigError, check_key
from hpfl.options import sentence, shown
from hpfl.reporting.targets import LOSS, Target

OPTIONS = "_options"
CASE = "case"
"""The axis of named cases."""
SweepOutput = Literal["csv", "parquet", "tables", "figures", "page"]
OUTPUTS: tuple[SweepOutput, ...] = ("csv", "parquet", "tables", "figures", "page")
_LARGEST_FILE_BYTES = 1_000_000
_AXES = (("grid",), ("zip",))


def flat(given: Any) -> Any:
    """`section.key` and value of nested tables, as TOML makes them of `section.key = value`."""
    return dict(_flat(given)) if isinstance(given, Mapping) else given


def _flat(given: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        full = f"{place}{name}"
        if isinstance(value, Mapping) and (full.count(".") == 0 or full.endswith(OPTIONS)):
            yield from _flat(value, f"{full}.")
        else:
            yield full, value


Keys = Annotated[dict[str, Any], BeforeValidator(flat)]
Axes = Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], BeforeValidator(flat)]


class LossTarget(BaseModel):
    """A personalised test loss to be timed: `{ loss = 0.12 }`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    loss: Annotated[float, Field(gt=0)]


class SweepStudy(BaseModel):
    """What is run: every cell of grid times zip times cases, each with every seed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    base: str
    """A preset's name, or a configuration's TOML file, from the study's own folder."""
    set_: Keys = Field(default_factory=dict, alias="set")
    """What all runs have: `section.key = value`, and `system`."""
    grid: Axes = Field(default_factory=dict)
    """Every value of each key with every value of the others."""
    zip_: Axes = Field(default_factory=dict, alias="zip")
    """Equally many values of each key, the first with the first, the second with the second."""
    cases: list[Keys] = Field(default_factory=list)
    """Named settings one by one: `name`, and `section.key = value`."""
    seeds: Annotated[int, Field(ge=1)] | Annotated[list[int], Field(min_length=1)] = 5
    """How many, from 0 on; or which."""
    targets: list[Annotated[float, Field(gt=0, le=1)] | LossTarget] = Field(default_factory=list)
    """Personalised accuracies to be timed, as shares; or `{ loss = ... }`. None: the configured one."""
    baseline: Keys = Field(default_factory=dict)
    """The values that a cell has which the others are set against: `planning.planner = "random"`."""
    outputs: list[SweepOutput] = Field(default_factory=lambda: list(OUTPUTS))
    """What is made of the runs."""
    tune: dict[str, Any] = Field(default_factory=dict)
    """What `hpfl tune` searches; a sweep does not read it."""

    @model_validator(mode="after")
    def _keys_exist(self) -> Self:
        for key in (*self.set_, *self.grid, *self.zip_, *(key for case in self.cases for key in case)):
            if key != "name":
                check_key(key)
            if key == "training.seed":
                raise ValueError("training.seed is varied by seeds; leave it out of set, grid, zip and cases")
        return self

    @model_validator(mode="after")
    def _each_key_once(self) -> Self:
        in_cases = {key for case in self.cases for key in case if key != "name"}
        places = {"set": set(self.set_), "grid": set(self.grid), "zip": set(self.zip_), "cases": in_cases}
        for one, other in (("grid", "zip"), ("grid", "cases"), ("zip", "cases"), ("set", "grid"), ("set", "zip")):
            if both := places[one] & places[other]:
                raise ValueError(f"{min(both)} is in {one} and in {other}; wanted in one of them")
        return self

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        lengths = {key: len(values) for key, values in self.zip_.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{key} has {count}" for key, count in lengths.items())
            raise ValueError(f"zip wants equally many values of each key; {told}")
        names = [case.get("name") for case in self.cases]
        for index, name in enumerate(names):
            if not isinstance(name, str) or not name:
                raise ValueError(f"cases[{index}] has no name; each wants name = ...")
            if names.count(name) > 1:
                raise ValueError(f"two cases are called {name!r}")
        for key, values in self.grid.items():
            twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
            if twice is not None:
                raise ValueError(f"grid has {key} = {shown(twice)} twice")
        if len(set(self.seed_list)) < len(self.seed_list):
            raise ValueError("a seed is there twice")
        return self

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def wanted_targets(self) -> list[Target]:
        """What runs are timed to, besides what they are configured to."""
        return [Target(each.loss, LOSS) if isinstance(each, LossTarget) else Target(each) for each in self.targets]

    @property
    def axes(self) -> tuple[str, ...]:
        """What is varied, in an order that does not depend on how it was written."""
        in_cases = sorted({key for case in self.cases for key in case if key != "name"})
        return (*([CASE] if self.cases else []), *in_cases, *sorted(self.zip_), *sorted(self.grid))

    def to_tree(self) -> dict[str, Any]:
        """Plain data of which the study can be made again; what is as by default is left out."""
        return self.model_dump(by_alias=True, exclude_defaults=True)


def study_of(tree: Mapping[str, Any], *, where: str) -> SweepStudy:
    """The study that plain data say, or a sentence for every fault; `where` is what they are the data of."""
    try:
        return SweepStudy.model_validate(dict(tree))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in _lines(error))) from None


def read_study(path: Path) -> SweepStudy:
    """The study in a TOML file."""
    if path.stat().st_size > _LARGEST_FILE_BYTES:
        raise ConfigError(f"{path} has {path.stat().st_size} bytes; a study has at most {_LARGEST_FILE_BYTES}")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return study_of(tree, where=str(path))


def is_study(path: Path) -> bool:
    """Whether a TOML file is a study rather than a configuration: it names a base."""
    try:
        return "base" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False


def _lines(error: ValidationError) -> Iterator[str]:
    """Each fault once, though a value may be none of several types."""
    told = set()
    for fault in error.errors():
        place = ".".join(str(part) for part in fault["loc"][: 2 if fault["loc"][:1] in _AXES else 1])
        if place in told:
            continue
        told.add(place)
        if fault["type"] == "extra_forbidden":
            known = ", ".join(field.alias or name for name, field in SweepStudy.model_fields.items())
            yield f"{place} is not of a study; it has {known}"
        elif fault["type"] == "missing":
            yield f"{place} is not given"
        else:
            value = "" if not place else f"{place} is {shown(fault['input'])}; "
            yield value + ("it should have a value" if fault["type"] == "too_short" else sentence(fault))
