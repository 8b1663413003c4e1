"""How a run's UEs fare at its end, from its table of UEs: spread, worst tenth, and who were better off alone."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hpfl.reporting.against_local import LOCAL, method_of, share_worse_off
from hpfl.reporting.runs import RunView
from hpfl.reporting.summary import spread_over_ues

WORSE_OFF = "worse_off_than_local"
_FIGURE, _NEW = "personalised_accuracy", "held_out"


def fate_of_ues(run: RunView, alone: RunView | None) -> dict[str, float | None]:
    """Standard deviation and mean of the worst tenth over the UEs that train, and the share that is worse off than
    in the run `alone`, of method `local`; null where that is not known.
    """
    ues: dict[str, Any] = {_FIGURE: run.ue_column(_FIGURE)}
    if _NEW in run.ues:
        ues[_NEW] = np.array([value == "True" for value in run.ues[_NEW]])
    worse = None if alone is None or method_of(run) == LOCAL else share_worse_off(run, alone)
    return {**spread_over_ues(ues), WORSE_OFF: worse}


def alone_by_seed(runs: Iterable[RunView]) -> Mapping[int | None, RunView]:
    """The runs of method `local`, by seed."""
    return {view.seed: view for view in runs if method_of(view) == LOCAL}
