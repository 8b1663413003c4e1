"""What the studies beyond the paper share: long runs of `fastest`, labels of shared runs, differences by seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpfl.studies.cases import Scale, case
from hpfl.studies.intervals import arithmetic
from hpfl.studies.parts import Part
from hpfl.studies.study import Found, Rows
from hpfl.studies.tabulate import Row, differences

TIMES_THE_ROUNDS = 4
"""`fastest` takes one or two edges a round, and is given as many times the rounds, which are over far sooner still."""


def hpfl_case(scale: Scale, data: str, seed: int, *, planner: str, vary: Mapping[str, Any] | None = None) -> Part:
    """HPFL with a planner, `fastest` with more rounds; every other equals what figures 3 and 4 run."""
    setup = scale.setups[data]
    length = {"training.rounds": TIMES_THE_ROUNDS * setup.rounds, "evaluation.every": TIMES_THE_ROUNDS * setup.every}
    return case(scale, data, seed, planner=planner, vary={**(length if planner == "fastest" else {}), **(vary or {})})


def labelled(found: Iterable[Found], **defaults: Any) -> list[Found]:
    """The runs with these labels where they have none: one shared with a figure may have been run for that."""
    return [{**part, "labels": {**defaults, **part["labels"]}} for part in found]


def less(ours: Rows, theirs: Rows, columns: Sequence[str]) -> Row:
    """Ours less theirs, paired by seed: mean and 95% interval of each column's difference, and how many pairs."""
    out: Row = {}
    values = {name: differences(ours, theirs, name) for name in columns}
    for name, pairs in values.items():
        found = arithmetic(pairs)
        out |= {
            name: found.mean if found else None,
            f"{name}_low": found.low if found else None,
            f"{name}_high": found.high if found else None,
        }
    return out | {"seeds": min((len(pairs) for pairs in values.values()), default=0)}
