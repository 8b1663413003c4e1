"""In which keys two configurations differ, as their files tell it; old files may lack keys that came later."""

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hpfl.config.render import UNDECIDING, to_toml
from hpfl.config.whole import Config

Tree = Mapping[str, Any]

MOST_TOLD = 5
"""Differences that are told one by one; whoever has more has taken another file."""


def settings(tree: Tree) -> dict[str, Any]:
    """`section.key` and value of everything a configuration's file says, and the defaults of what it leaves out."""
    return dict(_defaults()) | _flat(tree)


def deciding(tree: Tree) -> dict[str, Any]:
    """The settings that decide a run's numbers: not how long it runs, how often it saves, what it is timed to."""
    return {key: value for key, value in settings(tree).items() if key not in UNDECIDING}


def differences(config: Config, run: Tree) -> str:
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


def _flat(tree: Tree) -> dict[str, Any]:
    sections = {name: part for name, part in tree.items() if isinstance(part, Mapping)}
    return {f"{name}.{key}": value for name, part in sections.items() for key, value in part.items()}


@cache
def _defaults() -> Mapping[str, Any]:
    return _flat(tomllib.loads(to_toml(Config())))


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value)
