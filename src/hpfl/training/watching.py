"""Those who watch a run, simulated or real: they are told what happened and never decide what happens."""

from __future__ import annotations  # what only types need is not imported: a configuration knows watchers by name

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hpfl.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from hpfl.arrays import FloatArray, IntArray
    from hpfl.training.record import RoundRecord
    from hpfl.training.state import TrainState

Records = list[dict[str, Any]]
Ending = Literal["completed", "stopped", "diverged", "failed"]
"""All rounds are done; somebody asked to stop; the model was lost; an error or an interrupt broke the run off."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that is about to begin: its configuration, its folder (None: nothing is written), its size, its start.

    `state` is the one it begins with; that of a run that goes on with another has more than 0 rounds behind it.
    """

    config: Any
    folder: Path | None
    deployed: bool
    state: TrainState
    rounds: int
    num_edges: int
    num_ues: int
    num_parameters: int


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run leaves: one flat record per round, a summary, the model by parameter name, figures per UE.

    `how` it ended; one that diverged or failed has neither model nor figures, and `error` says why.
    """

    rounds: Records
    summary: dict[str, Any] = field(default_factory=dict)
    model: dict[str, torch.Tensor] = field(default_factory=dict)
    ues: dict[str, Any] = field(default_factory=dict)
    how: Ending
    error: str = ""

    @property
    def completed(self) -> bool:
        """Whether all rounds are done."""
        return self.how == "completed"


class Watcher:
    """Told of a run in this order: `started`, then of every round `round`, `evaluated`, `saved`, at last `ended`.

    Override what is wanted. What a watcher is given is the run's own: to be read, not changed. One that raises is
    named in a note and told nothing more; the run goes on as if it had not been there.
    """

    def started(self, run: Run) -> None:
        """A run begins, or goes on."""

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """A round has been played: the state after it, and its figures. Its record is in the run's folder by now."""

    def evaluated(self, round_number: int, columns: Mapping[str, FloatArray], ues: IntArray) -> None:
        """The model after a round was evaluated: figures by name, one per UE, and the numbers of those UEs."""

    def saved(self, round_number: int) -> None:
        """A checkpoint was written from which the run can go on after this round."""

    def ended(self, result: RunResult) -> None:
        """The run is over, however it ended (`result.how`); its files are written."""


WatcherFactory = Callable[..., Watcher]
"""`(folder, *, options)`: a watcher of a run whose results go to `folder`, a `Path` or None."""

WATCHERS: Registry[WatcherFactory] = Registry(
    "watcher",
    shipped={
        "tensorboard": "hpfl.trackers.tensorboard:TensorBoard",
        "mlflow": "hpfl.trackers.mlflow:Mlflow",
        "wandb": "hpfl.trackers.wandb:Wandb",
    },
    called=("folder",),
    made=("started", "round", "evaluated", "saved", "ended"),
)


class Audience:
    """Tells everybody. What `keepers` raise stops the run, for it is nothing without them; the others fall silent."""

    def __init__(
        self, watchers: Sequence[Watcher], *, keepers: Sequence[Watcher] = (), warn: Callable[[str], None]
    ) -> None:
        self._keepers, self._watchers, self._warn = tuple(keepers), list(watchers), warn

    def tell(self, what: str, *facts: Any) -> None:
        """Call the method `what` of every keeper, then of every watcher that has not failed yet."""
        for keeper in self._keepers:
            getattr(keeper, what)(*facts)
        for watcher in tuple(self._watchers):
            try:
                getattr(watcher, what)(*facts)
            except Exception as error:  # noqa: BLE001  whatever a watcher does, the run goes on
                self._watchers = [other for other in self._watchers if other is not watcher]
                self._warn(_failed(watcher, what, error))


def _failed(watcher: object, what: str, error: Exception) -> str:
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"watcher {type(watcher).__name__} failed in `{what}` ({why}) and is told nothing more; the run goes on"
