"""In which keys two configurations differ, as their files tell it; old files may lack keys that came later."""

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hpfl.config.fingerprints import UNDECIDING
from hpfl.config.named import OPTIONS, Names, slots_of
from hpfl.config.old_keys import renewed
from hpfl.config.render import to_toml
from hpfl.config.resolved import Experiment
from hpfl.config.whole import Config

MOST_TOLD = 5
"""Differences that are told one by one; whoever has more has taken another file."""


def settings(tree: Mapping[str, Any]) -> dict[str, Any]:
    """`section.key` and value of everything a configuration's file says, and the defaults of what it leaves out.

    Keys are called as they are now, and options of parts `section.key_options.option` where they are not the default.
    """
    return dict(_defaults()) | _flat(tree)


def deciding(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide a run's numbers: not how long it runs, how often it saves, what it is timed to."""
    return {key: value for key, value in settings(tree).items() if key not in UNDECIDING}


def differences(config: Config | Experiment, run: Mapping[str, Any]) -> str:
    """`planning.rho is 0.5 here, 0.8 in the run`, and so on for the deciding keys in which the two differ; or nothing.

    `run` is what the file beside a run's results says.
    """
    mine, theirs = deciding(tomllib.loads(to_toml(config))), deciding(run)
    told = [
        f"{key} is {_shown(mine.get(key))} here, {_shown(theirs.get(key))} in the run"
        for key in {**mine, **theirs}
        if mine.get(key) != theirs.get(key)
    ]
    more = [f"and {len(told) - MOST_TOLD} more"] if len(told) > MOST_TOLD else []
    return "; ".join([*told[:MOST_TOLD], *more])


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    sections = {name: part for name, part in tree.items() if isinstance(part, Mapping)}
    return {f"{name}.{key}": value for name, part in sections.items() for key, value in _keys(name, part).items()}


def _keys(section: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """A section's keys by their names of now, and its options one by one."""
    known = Config.model_fields.get(section)
    if known is None:
        return dict(tree)
    model: Any = known.annotation
    slots, chosen = slots_of(model), {name: model.model_fields[name].default for name in slots_of(model)}
    made, unread = renewed(section, tree, chosen)
    tables = {name: made.pop(name + OPTIONS, {}) for name in slots}
    options = {
        f"{name}{OPTIONS}.{option}": value
        for name, table in tables.items()
        for option, value in _not_default(slots[name], made.get(name, chosen[name]), table).items()
    }
    return made | unread | options


def _not_default(slot: Names, chosen: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that are other than by default; all of a part that is not here to say what that is."""
    try:
        read = slot.read(chosen, table)
    except ValueError:
        return table
    return {} if read is None else dict(read.model_dump(mode="json", exclude_defaults=True))


@cache
def _defaults() -> Mapping[str, Any]:
    return _flat(tomllib.loads(to_toml(Config())))


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value)
