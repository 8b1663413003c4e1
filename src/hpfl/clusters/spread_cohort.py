"""One cohort on many workers: a model goes down, the sums of blocks come up and are added in the order of blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.clusters.block_worker import Answered, Forgotten, HeldSamples, packed, tensor
from hpfl.clusters.connecting import ClusterError
from hpfl.clusters.private_rows import PrivateRows
from hpfl.clusters.sharing import UeStretch, stretches
from hpfl.clusters.team import Team
from hpfl.learning import CohortUpdates, Evaluation, Kept, LocalTraining, Task, TestData, columns_of
from hpfl.learning.batches import Samples, Segments, ShardRows
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.cohort_round import Answer, Request, reported
from hpfl.learning.part import part_data, tried_ues
from hpfl.learning.placement import refuse_empty
from hpfl.rng import Streams

_NUMBERS = count()


@dataclass(frozen=True)
class _Holding:
    """What a worker holds of a cohort: its stretch of UEs, and where recipe and samples can be fetched."""

    stretch: UeStretch
    refs: list[Any]

    def call(self, number: int, *given: Any) -> tuple[Any, ...]:
        return (number, self.refs, *given)


class SpreadCohort:
    """The UEs of a run on workers of a cluster; updates lie where the driver is."""

    def __init__(
        self, team: Team, sizes: IntArray, holdings: Mapping[int, _Holding], recipe: Mapping[str, Any]
    ) -> None:
        self._team, self._sizes, self._holdings, self._recipe = team, sizes, holdings, recipe
        self._number, self._kept = next(_NUMBERS), PrivateRows(len(sizes))
        _refuse_unlike(self._ask("about", {}))

    @property
    def num_ues(self) -> int:
        """Number N of UEs."""
        return len(self._sizes)

    @property
    def device(self) -> torch.device:
        """Where updates lie."""
        return torch.device("cpu")

    def updates(
        self,
        params: Tensor,
        *,
        ues: IntArray,
        groups: IntArray,
        num_groups: int,
        streams: Streams,
        key: int,
        weights: FloatArray | None = None,
        kept: Kept | None = None,
        keep_per_ue: bool = False,
        coding: Coding = UNCODED,
    ) -> CohortUpdates:
        """Mean update per group, as of a `Cohort`, to the last bit."""
        asked = {"num_groups": num_groups, "weights": weights, "streams": streams, "key": key, "coding": coding}
        request = Request.of(params.to(self._recipe["dtype"]), ues, groups, **asked)
        refuse_empty(request.ues, self._sizes)
        places = {worker: holding.stretch.places(request.ues) for worker, holding in self._holdings.items()}
        places = {worker: at for worker, at in places.items() if len(at)}
        model = self._team.put(request.params.numpy())
        told = {worker: (model, _of_part(request, at) | {"keep_per_ue": keep_per_ue}) for worker, at in places.items()}
        rows = {worker: (request.ues[at], (kept or Kept()).rows(at)) for worker, at in places.items()}
        answers: dict[int, Answered] = self._told_rows("updates", told, rows)
        for worker, answer in answers.items():
            self._kept.committed(worker, rows[worker][0], answer.rows, answer.now)
        return reported(request, _joined(request, places, answers))

    def evaluate(
        self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1, kept: Kept | None = None
    ) -> Evaluation:
        """Figures of every UE on the test samples that this was made with."""
        model, steps = self._team.put(params.to(self._recipe["dtype"]).numpy()), (inner_lr, inner_steps)
        own = {worker: np.arange(h.stretch.first, h.stretch.end) for worker, h in self._holdings.items()}
        told = dict.fromkeys(own, (model, steps))
        rows = {worker: (ues, (kept or Kept()).rows(ues)) for worker, ues in own.items()}
        answers: dict[int, tuple[FloatArray, str]] = self._told_rows("evaluate", told, rows)
        columns = columns_of(self._recipe["metrics"])
        figures = np.full((len(columns), self.num_ues), np.nan)
        for worker, (found, now) in answers.items():
            figures[:, own[worker]] = found
            self._kept.after[worker] = now
        return Evaluation(dict(zip(columns, figures, strict=True)))

    def _told_rows(
        self, what: str, told: Mapping[int, tuple[Any, ...]], rows: Mapping[int, tuple[IntArray, Kept]]
    ) -> dict[int, Any]:
        """Answers to a call that goes with private rows; they are sent to whoever has forgotten them."""
        given = {worker: self._kept.given(worker, *rows[worker]) for worker in told}
        answers = self._ask(what, {worker: (*own, given[worker]) for worker, own in told.items()})
        lost = [worker for worker, answer in answers.items() if isinstance(answer, Forgotten)]
        if lost:
            given |= {worker: self._kept.given(worker, *rows[worker], again=True) for worker in lost}
            answers |= self._ask(what, {worker: (*told[worker], given[worker]) for worker in lost})
        for worker, own in given.items():
            self._kept.committed(worker, rows[worker][0], own.rows, "")
        return answers

    def _ask(self, what: str, told: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        told = told or dict.fromkeys(self._holdings, ())
        return self._team.ask(what, {w: self._holdings[w].call(self._number, *own) for w, own in told.items()})


def spread_cohort(
    team: Team,
    task: Task,
    training: LocalTraining,
    *,
    inputs: Tensor,
    targets: Tensor,
    shards: Segments,
    test: TestData | None = None,
    **options: Any,
) -> SpreadCohort:
    """A cohort with the options of `Cohort`, each worker of the team with the samples of its own UEs."""
    options.pop("device", None)
    sizes = ShardRows.of(shards).sizes
    recipe = {"task": task, "training": training, **options}
    if team.device == "cpu" and options["method"] is None:
        recipe["layerwise"] = _is_chain(recipe, inputs, targets, shards)
    recipe_ref, tried = team.put(recipe), tried_ues(sizes, training.batch_size)
    shared = stretches(sizes, options["block_ues"], len(team.actors))
    _tell_of_idle(team, len(shared), len(sizes), options["block_ues"])
    holdings = {}
    for stretch in shared:
        own = np.arange(stretch.first, stretch.end)
        held = np.union1d(own, tried)
        train = packed(part_data(inputs, targets, shards, held))
        tests = None if test is None else packed(part_data(test.inputs, test.targets, test.shards, held))
        holdings[stretch.worker] = _Holding(stretch, [recipe_ref, team.put(HeldSamples(train, tests, own))])
    return SpreadCohort(team, sizes, holdings, recipe)


def _is_chain(recipe: Mapping[str, Any], inputs: Tensor, targets: Tensor, shards: Segments) -> bool:
    """Whether the whole data allow the layer-wise engine; a worker sees its own alone, and all must choose alike."""
    cpu, dtype = torch.device("cpu"), recipe["dtype"]
    task = recipe["task"].to(cpu, dtype)
    samples = replace(Samples.on(cpu, dtype, inputs=inputs, targets=targets, shards=shards), mass=task.mass)
    return ChainEngine.choose(task, recipe["training"], samples) is not None


def _of_part(request: Request, at: IntArray) -> dict[str, Any]:
    """What a worker is asked with, besides the model."""
    own = {name: getattr(request, name)[at] for name in ("ues", "groups", "shares")}
    alike = {name: getattr(request, name) for name in ("num_groups", "streams", "key", "coding")}
    return {**own, **alike, "all_asked": len(request.ues)}


def _joined(request: Request, places: Mapping[int, IntArray], answers: Mapping[int, Answered]) -> Answer:
    """One answer: sums are added worker by worker, which is the order of their blocks."""
    params, one = request.params, next(iter(answers.values()))
    total = params.new_zeros(request.num_groups, params.shape[-1])
    losses, width = params.new_zeros(2, len(request.ues)), len(request.ues)

    def room(like: Any) -> Tensor | None:
        return None if like is None else torch.zeros(width, *like.shape[1:], dtype=tensor(like[:0]).dtype)

    kept = Kept(**{name: room(rows) for name, rows in one.rows.items()})
    whole = Answer(total, losses, room(one.per_ue), kept, room(one.variance), room(one.squared))
    for worker in sorted(answers):
        answer, at = answers[worker], torch.from_numpy(places[worker])
        for first, rows in answer.sums:
            there = total[first : first + len(rows)].numpy()
            np.add(there, rows, out=there)  # rows stay where they have arrived
        losses[:, at] = tensor(answer.losses)
        kept.write(places[worker], Kept(**{name: tensor(rows) for name, rows in answer.rows.items()}))
        both = (whole.per_ue, answer.per_ue), (whole.variance, answer.variance), (whole.squared, answer.squared)
        for into, own in both:
            if into is not None and own is not None:
                into[at] = tensor(own)
    return whole


def _tell_of_idle(team: Team, used: int, num_ues: int, block_ues: int) -> None:
    if used < len(team.actors):
        team.note(
            f"{num_ues} UEs make {used} block{'s' * (used != 1)} of learning.block_ues = {block_ues}, so {used} of "
            f"{len(team.actors)} workers compute; smaller blocks spread further, and round otherwise"
        )


def _refuse_unlike(abouts: Mapping[int, Mapping[str, str]]) -> None:
    """Refuse workers that would round otherwise than others: with other versions, or another engine."""
    first = min(abouts)
    for worker, about in abouts.items():
        for name, value in about.items():
            if value != abouts[first][name]:
                raise ClusterError(
                    f"worker {worker} has {name} {value}, worker {first} {abouts[first][name]}; wanted the same on all "
                    "nodes, for they would round otherwise"
                )
