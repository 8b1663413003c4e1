"""The round itself, one state machine: what a run is between rounds, what a round records, who watches."""

from hpfl.training.record import RoundRecord
from hpfl.training.state import EdgeUpdate, Executor, Observation, Outcome, TrainState
from hpfl.training.watching import WATCHERS, Run, RunResult, Watcher

__all__ = [
    "WATCHERS",
    "EdgeUpdate",
    "Executor",
    "Observation",
    "Outcome",
    "RoundRecord",
    "Run",
    "RunResult",
    "TrainState",
    "Watcher",
]
