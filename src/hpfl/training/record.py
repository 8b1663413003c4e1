"""The figures of one round, flat and named: one line of `rounds.jsonl`, from which every picture is drawn."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hpfl.learning import LearningError
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.phases import Phases
from hpfl.training.scene import Scene

_USUAL = summary_columns()


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """Round `round` (counted from 1) and the system just after it. Between evaluations, their columns are None.

    `scheduled` are the edges the plan gave bandwidth, `aggregated` those whose update arrived, `staleness` theirs and
    `shares` those they had in the step, which watchers are told and no file holds but the audit log;
    `superseded` updates in flight were replaced by a broadcast, `dropped` ones were lost with their edge; of the UEs
    `num_participants` took part in the round's links and `num_lost` were left out on the way.
    `objective`, `lower_bound` and `relative_gap` are those of P2, which planner `fastest` does not seek.
    `step_scale` multiplied the outer step; `noise_scale` is the planner's estimate of the noise between edges over the
    signal. `compute_s`, `access_s` and `backhaul_s` are what the edge that arrived last spent in each phase. Where a
    broadcast takes time, `latency_s` ends with its `broadcast_s` seconds, in which `downlink_bits` were on the air and
    `downlink_j` were spent by servers and UEs (the UEs' part is in `energy_j` too); `num_missed` UEs did not receive
    it. Where edges learn sums alone, `cells_below_threshold` had too few UEs to open one, and `num_scaled_down` UEs had
    an update beyond `secure.range`. `epsilon` is what the run has told of any one UE so far (None: nothing is private,
    or nothing is promised). `num_anew` UEs of a deployment began anew, for nothing was left of what they had kept
    (None: they keep nothing, or the run is simulated). `evaluation` has the columns of the run's metrics, which are
    attributes too: `record.meta_loss`. `phases` goes to `timeline.jsonl`, `scene` to `scenes.jsonl`.
    """

    round: int
    time_s: float
    latency_s: float
    num_scheduled: int
    scheduled: tuple[int, ...]
    num_aggregated: int
    max_staleness: int
    mean_staleness: float
    importance: float
    bandwidth_used_hz: float
    uplink_bits: float
    energy_j: float
    planning_s: float
    objective: float
    lower_bound: float
    relative_gap: float
    aggregated: tuple[int, ...] = ()
    staleness: tuple[int, ...] = ()
    superseded: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    num_participants: int = 0
    num_lost: int = 0
    compute_s: float = 0.0
    access_s: float = 0.0
    backhaul_s: float = 0.0
    broadcast_s: float = 0.0
    downlink_bits: float = 0.0
    downlink_j: float = 0.0
    num_missed: int = 0
    cells_below_threshold: int = 0
    num_scaled_down: int = 0
    step_scale: float = 1.0
    noise_scale: float | None = None
    epsilon: float | None = None
    num_anew: int | None = None
    evaluation: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(_USUAL))
    shares: tuple[float, ...] = ()
    phases: Phases | None = field(default=None, repr=False, compare=False)
    scene: Scene | None = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> float | None:
        """A column of the evaluation; one of the usual columns is None where a run does not measure it."""
        columns: Mapping[str, float | None] = self.__dict__.get("evaluation", {})
        if name not in columns and name not in _USUAL:
            raise AttributeError(f"a record has no {name!r}; of evaluations this one has {', '.join(columns)}")
        return columns.get(name)

    def to_json(self) -> dict[str, Any]:
        """A plain object with the columns of the evaluation at its end; numbers that JSON cannot hold become null."""
        own = {key: value for key, value in vars(self).items() if key not in _APART}
        for name in ("epsilon", "num_anew"):
            if own[name] is None:
                del own[name]
        return {key: _plain(value) for key, value in {**own, **self.evaluation}.items()}


_APART = frozenset({"evaluation", "shares", "phases", "scene"})
_OWN = frozenset(entry.name for entry in fields(RoundRecord)) - _APART
"""What every line of `rounds.jsonl` has, whatever is measured."""
LATER = frozenset(
    {
        "compute_s",
        "access_s",
        "backhaul_s",
        "broadcast_s",
        "downlink_bits",
        "downlink_j",
        "num_missed",
        "cells_below_threshold",
        "num_scaled_down",
    }
)
"""What a record of earlier versions lacks."""
_OF_UES = frozenset({"ue", "edge", "samples", "labels", "hostile"})
"""What a line of `ues.csv` has besides."""


def evaluated_columns(line: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of a line of `rounds.jsonl` that an evaluation fills."""
    return tuple(name for name in line if name not in _OWN)


def check_columns(names: Iterable[str]) -> None:
    """Refuse columns of metrics that would stand in the place of something else in a record or a table of UEs."""
    taken = [name for name in names if name in _OWN | _APART | _OF_UES]
    if taken:
        raise LearningError(f"a metric's column is called {taken[0]!r}, as another in the results; wanted a new name")


MEASURED_FIELDS = frozenset({"planning_s"})
"""Fields that are measured on the wall clock and so differ between identical runs."""


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
