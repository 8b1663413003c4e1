"""What the studies beyond the paper share: long runs of `fastest`, labels of shared runs, differences by seed."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpfl.studies.cases import Scale, case
from hpfl.studies.study import Rows, TableRow
from hpfl.studies.tabulate import band, differences
from hpfl.sweeps.parts import StudyPart

TIMES_THE_ROUNDS = 4
"""`fastest` takes one or two edges a round, and is given as many times the rounds, which are over far sooner still."""


def hpfl_case(scale: Scale, data: str, seed: int, *, planner: str, vary: Mapping[str, Any] | None = None) -> StudyPart:
    """HPFL with a planner, `fastest` with more rounds; every other equals what figures 3 and 4 run."""
    setup = scale.setups[data]
    length = {"training.rounds": TIMES_THE_ROUNDS * setup.rounds, "evaluation.every": TIMES_THE_ROUNDS * setup.every}
    return case(scale, data, seed, planner=planner, vary={**(length if planner == "fastest" else {}), **(vary or {})})


def less(ours: Rows, theirs: Rows, columns: Sequence[str]) -> TableRow:
    """Ours less theirs, paired by seed: mean and 95% interval of each column's difference, and how many pairs."""
    out: TableRow = {}
    values = {name: differences(ours, theirs, name) for name in columns}
    for name, pairs in values.items():
        out |= band(name, pairs)
    return out | {"seeds": min((len(pairs) for pairs in values.values()), default=0)}
