"""The engine of a cluster: every job in a process of its own kind, on whatever node has room for it."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hpfl.clusters.connecting import ClusterError, Wanted, connected
from hpfl.clusters.job_actor import JobActor
from hpfl.clusters.surroundings import Surroundings
from hpfl.config import ConfigError
from hpfl.sweeps.jobs import Course, Job, JobOutcome

MOST_TRIES = 3
"""Processes that one job may cost before it is given up."""
_LOOK_S = 0.2


@dataclass
class _Player:
    """An actor, the job it is at, and what it was asked last."""

    actor: Any
    gpus: float
    job: Job | None = None
    asked: Any = None


class RayEngine:
    """Plays jobs on a cluster, `workers` at a time (0: as many as it has CPUs for), each with its share of a GPU.

    A job leaves files in a folder, which all nodes must see at the same path: one that a node died over goes on from
    its last checkpoint there, on another node. `gpus` GPUs at least must be there.
    """

    def __init__(
        self,
        workers: int = 0,
        *,
        gpus: int = 0,
        cpus_per_run: int = 1,
        gpus_per_run: float = 0.0,
        address: str = "",
    ) -> None:
        if workers < 0 or cpus_per_run < 1:
            raise ConfigError(f"workers is {workers} and cpus_per_run {cpus_per_run}; wanted at least 0 and 1")
        self.workers, self.gpus, self.cpus, self.address = workers, gpus, cpus_per_run, address
        self._wanted = Wanted(what="run", count=max(workers, 1), cpus=cpus_per_run, gpus=gpus_per_run)
        self._stack, self._players = ExitStack(), list[_Player]()
        self._ray: Any = None

    def __enter__(self) -> "RayEngine":
        self._ray = ray = self._stack.enter_context(connected(self.address, self._wanted))
        there = ray.cluster_resources()
        if self.gpus > there.get("GPU", 0.0):
            self.__exit__(None)
            raise ClusterError(f"--gpus is {self.gpus}; the cluster has {there.get('GPU', 0.0):g}")
        self.workers = self.workers or max(math.floor(there["CPU"] / self.cpus), 1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: Any) -> None:
        for player in self._players:
            self._ray.kill(player.actor)
        self._players.clear()
        self._stack.close()

    def run(self, jobs: Sequence[Job], course: Course) -> None:
        """Play all; a job whose process or node is gone is begun again by another one, from what it has written."""
        self._refuse_more_gpus(jobs)
        waiting, tries, told = deque(jobs), Counter[str](), False
        while waiting or any(player.job for player in self._players):
            if not told and course.should_stop():
                told = True
                for player in self._players:
                    player.actor.stop.remote()
            if told:
                waiting.clear()
            self._hand_out(waiting, course)
            for player in self._ready():
                self._hear(player, course, waiting, tries)

    def _refuse_more_gpus(self, jobs: Sequence[Job]) -> None:
        """Refuse jobs that no node has the GPUs for: they would wait for ever."""
        most = max((job.gpus for job in jobs), default=0.0)
        nodes = [node["Resources"].get("GPU", 0.0) for node in self._ray.nodes() if node["Alive"]]
        if most > max(nodes):
            raise ClusterError(
                f"a run was asked {most:g} GPUs for; no node of the cluster has more than {max(nodes):g}"
            )

    def _hand_out(self, waiting: deque[Job], course: Course) -> None:
        """Every player that has nothing to do gets a job; players are started as they are needed."""
        while waiting:
            job = waiting[0]
            player = next((own for own in self._players if own.job is None and own.gpus == job.gpus), None)
            if player is None:
                if len(self._players) >= self.workers and not self._end_an_idle_one():
                    return
                player = self._start(job.gpus)
            waiting.popleft()
            player.job = job
            player.actor.play.remote(job.to_plain())
            player.asked = player.actor.heard.remote(_LOOK_S)
            course.begun(job)

    def _end_an_idle_one(self) -> bool:
        """Make room for a player of another kind."""
        idle = next((player for player in self._players if player.job is None), None)
        if idle is not None:
            self._ray.kill(idle.actor)
            self._players.remove(idle)
        return idle is not None

    def _start(self, gpus: float) -> _Player:
        kind = self._ray.remote(JobActor).options(num_cpus=self.cpus, num_gpus=gpus, max_concurrency=3)
        player = _Player(kind.remote(Surroundings.of_driver(self.cpus)), gpus)
        self._players.append(player)
        return player

    def _ready(self) -> list[_Player]:
        asked = {player.asked: player for player in self._players if player.job is not None}
        if not asked:
            return []
        ready, _ = self._ray.wait(list(asked), num_returns=1, timeout=_LOOK_S)
        return [asked[ref] for ref in ready]

    def _hear(self, player: _Player, course: Course, waiting: deque[Job], tries: Counter[str]) -> None:
        job, errors = player.job, self._ray.exceptions
        assert job is not None
        try:
            said = self._ray.get(player.asked)
        except errors.RayError as error:
            self._players.remove(player)
            self._lost(job, str(error).strip().splitlines()[0], course, waiting, tries)
            return
        for each in said:
            if "round" in each:
                course.round(job, each["round"])
            elif "note" in each:
                course.note(job, each["note"])
            else:
                player.job = None
                course.ended(job, JobOutcome(**each["ended"]))
        if player.job is not None:
            player.asked = player.actor.heard.remote(_LOOK_S)

    def _lost(self, job: Job, how: str, course: Course, waiting: deque[Job], tries: Counter[str]) -> None:
        tries[job.name] += 1
        if tries[job.name] < MOST_TRIES:
            course.note(job, f"the process of {job.name} is gone ({how}); another goes on from its last checkpoint")
            waiting.appendleft(job)
        else:
            course.ended(job, JobOutcome(done=False, error=f"{MOST_TRIES} processes died over it; the last: {how}"))
