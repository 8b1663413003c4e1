"""The workers of one large run as the driver sees them: actors that Ray starts again, elsewhere, when they are lost."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hpfl.clusters.block_worker import Worker
from hpfl.clusters.connecting import ClusterError, Wanted, connected
from hpfl.clusters.surroundings import Surroundings

_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Team:
    """Actors, and whom it is told that one is waited for."""

    ray: Any
    actors: list[Any]
    note: Callable[[str], None]
    device: str

    def put(self, value: Any) -> Any:
        """A value where all workers can fetch it."""
        return self.ray.put(value)

    def ask(self, what: str, calls: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """What some workers answer to `what`, by their numbers; a call of a worker that is lost is made again."""
        asked = {number: getattr(self.actors[number], what).remote(*given) for number, given in calls.items()}
        self._await(list(asked.values()))
        return {number: self._answer(number, ref) for number, ref in asked.items()}

    def _await(self, waiting: list[Any]) -> None:
        count = len(waiting)
        _, waiting = self.ray.wait(waiting, num_returns=count, timeout=_PATIENCE_S)
        if waiting:
            self.note(
                f"{len(waiting)} of {count} workers have not answered for {_PATIENCE_S:g} s; one that was lost starts "
                "again as soon as the cluster has room for it"
            )

    def _answer(self, number: int, ref: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(ref)
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RaySystemError):
                said = str(error.cause).splitlines()[0]
                raise ClusterError(f"worker {number} cannot read what it was sent: {said}") from error
            raise error.cause.with_traceback(None) from None
        except (errors.RayActorError, errors.RaySystemError) as error:
            said = str(error).strip().splitlines()[0]
            raise ClusterError(f"worker {number} was lost and cannot be started again: {said}") from error


@contextmanager
def team_of(wanted: Wanted, address: str, note: Callable[[str], None]) -> Iterator[Team]:
    """So many workers on a cluster, which end with this."""
    with connected(address, wanted) as ray:
        device = "cuda" if wanted.gpus else "cpu"
        kind = ray.remote(Worker).options(
            num_cpus=wanted.cpus,
            num_gpus=wanted.gpus,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
        )
        around = Surroundings.of_driver(max(int(wanted.cpus), 1))
        actors = [kind.remote(around, device) for _ in range(wanted.count)]
        try:
            yield Team(ray, actors, note, device)
        finally:
            for actor in actors:
                ray.kill(actor)
