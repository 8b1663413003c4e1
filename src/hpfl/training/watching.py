"""Those who watch a run: told what happened, never asked what shall happen."""

from collections.abc import Callable
from typing import Protocol

from hpfl.registry import Registry
from hpfl.training.evaluation_summary import EvaluationSummary
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState


class Watcher(Protocol):
    """Told of a run as it goes; what it returns is not looked at."""

    def started(self, state: TrainState) -> None:
        """The run begins, or goes on, with this state."""
        ...

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """A round is over."""
        ...

    def evaluated(self, round_number: int, summary: EvaluationSummary) -> None:
        """The model after a round was measured."""
        ...

    def ended(self, state: TrainState, *, completed: bool) -> None:
        """The run is over, or stopped before its last round."""
        ...


WATCHERS: Registry[Callable[..., Watcher]] = Registry("watcher")
"""What makes a watcher of a run."""
