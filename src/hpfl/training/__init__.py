"""The round itself, one state machine; what a watcher or an executor of one's own needs is here."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.training.combine import COMBINES, Combine, Combined, Contribution, RuleState
    from hpfl.training.loop import Parts, play_round, train
    from hpfl.training.record import RoundRecord
    from hpfl.training.state import EdgeUpdate, Executor, Observation, Outcome, TrainState
    from hpfl.training.watching import WATCHERS, Run, RunResult, Watcher

__all__ = [
    "COMBINES",
    "WATCHERS",
    "Combine",
    "Combined",
    "Contribution",
    "EdgeUpdate",
    "Executor",
    "Observation",
    "Outcome",
    "Parts",
    "RoundRecord",
    "RuleState",
    "Run",
    "RunResult",
    "TrainState",
    "Watcher",
    "play_round",
    "train",
]

_KNOWN_BY = {
    "hpfl.training.combine": ("COMBINES", "Combine", "Combined", "Contribution", "RuleState"),
    "hpfl.training.loop": ("Parts", "play_round", "train"),
    "hpfl.training.record": ("RoundRecord",),
    "hpfl.training.state": ("EdgeUpdate", "Executor", "Observation", "Outcome", "TrainState"),
    "hpfl.training.watching": ("WATCHERS", "Run", "RunResult", "Watcher"),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
