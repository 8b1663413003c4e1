"""Runs that differ in their seed alone, taken together under one name."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from hpfl.config import deciding
from hpfl.reporting.runs import RunView

_BESIDES = ("training.seed", "network.write_trace")
"""Settings in which the runs of a group may differ: the seed, and where a run is written down to be replayed."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """One or several runs of one configuration, each of another seed. All are simulated, or all were deployed."""

    label: str
    runs: tuple[RunView, ...]
    kind: str = ""
    """Everything in which its runs agree."""

    @property
    def by_seed(self) -> dict[int | None, RunView]:
        """The runs by their seeds; the seed of a run without a configuration is not known."""
        return {view.seed: view for view in self.runs}

    @property
    def system(self) -> str | None:
        """The system of every run."""
        return self.runs[0].system

    @property
    def planner(self) -> str | None:
        """The planner of every run."""
        return self.runs[0].planner

    @property
    def time_word(self) -> str:
        """What the seconds of every run are."""
        return self.runs[0].time_word

    @property
    def seeds_text(self) -> str:
        """`1 seed`, `5 seeds`."""
        return "1 seed" if len(self.runs) == 1 else f"{len(self.runs)} seeds"


def grouped(views: Sequence[RunView]) -> list[Group]:
    """The runs by configuration, in their order; a seed that comes a second time begins another group.

    Such runs were made by other code or on other machines, and are compared seed by seed like any two groups.
    """
    kinds = [_kind(view) or f"alone {index}" for index, view in enumerate(views)]
    seen: Counter[tuple[str, int | None]] = Counter()
    found: dict[tuple[str, int], list[RunView]] = {}
    for kind, view in zip(kinds, views, strict=True):
        found.setdefault((kind, seen[kind, view.seed]), []).append(view)
        seen[kind, view.seed] += 1
    names = [_name(runs) for runs in found.values()]
    return [
        Group(label=name if names.count(name) == 1 else _span(runs), runs=tuple(runs), kind=kind)
        for name, ((kind, _), runs) in zip(names, found.items(), strict=True)
    ]


def repeated(groups: Sequence[Group]) -> list[str]:
    """A sentence for all groups that are of one configuration, and so of the same seeds."""
    names = [[group.label for group in groups if group.kind == kind] for kind in dict.fromkeys(g.kind for g in groups)]
    return [f"{listed(those)} have the same configuration and seeds." for those in names if len(those) > 1]


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _kind(view: RunView) -> str | None:
    """All that decides a run's numbers but its seed; None where that is not known."""
    if not view.config:
        return None
    settings = {key: value for key, value in deciding(view.config).items() if key not in _BESIDES}
    return json.dumps([view.deployed, settings], sort_keys=True, default=str)


def _name(runs: Sequence[RunView]) -> str:
    """What the names of all runs have in common once their seeds are left out."""
    labels = [view.label for view in runs]
    if len(labels) == 1:
        return labels[0]
    bare = {_without_seed(view) for view in runs}
    shared = bare.pop() if len(bare) == 1 else _start(labels) or _start([label[::-1] for label in labels])[::-1]
    system = runs[0].system
    return system if system and shared == system.lower() else shared or _span(runs)


def _without_seed(view: RunView) -> str:
    return re.sub(rf"[-_./ ](?:seed|s)?[-_=]?{view.seed}(?!\d)|^(?:seed|s)?[-_=]?{view.seed}[-_./ ]", "", view.label)


def _start(labels: Sequence[str]) -> str:
    columns = zip(*labels, strict=False)
    shared = "".join(letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, columns))
    return re.sub(r"(?:[-_./ ](?:seed|s))?[-_./= ]*$", "", shared).lstrip("-_./= ")


def _span(runs: Sequence[RunView]) -> str:
    return runs[0].label if len(runs) == 1 else f"{runs[0].label} .. {runs[-1].label}"
