"""Where values are looked for: ranges and lists that fit the keys, tried at both ends before the first run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hpfl.config import Config, ConfigError, resolve, varied
from hpfl.options import shown
from hpfl.sweeps.cells import Cell, toml_text
from hpfl.tuning.tune_settings import Range, TuneSettings, ranges_of

DIGITS = 4
"""Digits that count, of numbers that are proposed: a best value is to be read and written."""
Space = Mapping[str, Range | list[Any]]


def space_of(settings: TuneSettings, cells: Sequence[Cell]) -> Space:
    """The space; a key that a case varies itself, and a value that some case cannot have, are refused."""
    space = ranges_of(settings)
    for key, found in space.items():
        taken = next((cell for cell in cells if key in cell.values), None)
        if taken is not None:
            raise ConfigError(f"{key} is varied by the study and searched in tune.space; wanted in one of them")
        if isinstance(found, Range) and _is_whole(cells[0].config, key):
            _refuse_parts(key, found)
    for key, found in space.items():
        for value in ends_of(key, found, cells[0].config):
            for cell in cells:
                _tried(cell, key, value)
    return {key: as_typed(cells[0].config, key, found) for key, found in space.items()}


def as_typed(config: Config, key: str, found: Range | list[Any]) -> Range | list[Any]:
    """A range of whole numbers or of others, as the key is; of an option, as it is written."""
    if not isinstance(found, Range):
        return found
    now = value_of(config, key)
    if isinstance(now, float) or not _is_whole(config, key):
        kept = found.model_dump(exclude={"low", "high", "step"})
        step = None if found.step is None else float(found.step)
        numbers = isinstance(now, int | float) or isinstance(found.low, float) or isinstance(found.high, float)
        return Range(low=float(found.low), high=float(found.high), step=step, **kept) if numbers else found
    step = None if found.step is None else int(found.step)
    return Range(low=int(found.low), high=int(found.high), log=found.log, step=step)


def is_whole(found: Range) -> bool:
    """Whether a range, typed, is of whole numbers."""
    return all(isinstance(each, int) for each in _numbers(found))


def ends_of(key: str, found: Range | list[Any], config: Config) -> list[Any]:
    """What is tried of a range or list before anything runs."""
    typed = as_typed(config, key, found)
    return [typed.low, typed.high] if isinstance(typed, Range) else typed


def with_values(config: Config, params: Mapping[str, Any]) -> Config:
    """A configuration with values of keys, checked whole."""
    made = varied(config, [f"{key}={toml_text(value)}" for key, value in params.items()])
    resolve(made)
    return made


def configured_values(config: Config, space: Space) -> dict[str, Any] | None:
    """The values that a configuration has already; None where one lies outside the space or is not known."""
    values = {key: value_of(config, key) for key in space}
    return values if all(_holds(space[key], value) for key, value in values.items()) else None


def value_of(config: Config, key: str) -> Any:
    """The value of a key or of an option that is written down; None of others."""
    section, _, name = key.partition(".")
    value: Any = config
    for part in (section, *name.split(".")):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return value


def rounded(value: float, found: Range) -> float:
    """A proposed number with few digits, within its range."""
    if found.step is not None:
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), found.low), found.high)


def _holds(found: Range | list[Any], value: Any) -> bool:
    if isinstance(found, list):
        return value in found
    if not isinstance(value, int | float) or isinstance(value, bool) or not found.low <= value <= found.high:
        return False
    return found.step is None or math.isclose((value - found.low) / found.step % 1, 0, abs_tol=1e-9)


def _refuse_parts(key: str, found: Range) -> None:
    if not all(float(end).is_integer() for end in _numbers(found)):
        raise ConfigError(f"tune.space {key} is a whole number; it goes from {found.low:g} to {found.high:g}")


def _numbers(found: Range) -> list[int | float]:
    return [found.low, found.high, *([found.step] if found.step is not None else [])]


def _is_whole(config: Config, key: str) -> bool:
    now = value_of(config, key)
    return isinstance(now, int) and not isinstance(now, bool)


def _tried(cell: Cell, key: str, value: Any) -> None:
    try:
        with_values(cell.config, {key: value})
    except ConfigError as error:
        raise ConfigError(f"tune.space {key}, {shown(value)} in {cell.label}: {error}") from None
