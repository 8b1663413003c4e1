"""One search: the trials of one case, batch by batch, each chosen by what the batches before it came to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hpfl.config import Config, ConfigError
from hpfl.sweeps.cells import SEED, Cell
from hpfl.sweeps.code_version import code_of
from hpfl.sweeps.parts import StudyPart
from hpfl.tuning.asking import Known, proposal
from hpfl.tuning.found_runs import FoundRun, FoundRuns
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.proposals import Proposals
from hpfl.tuning.pruning import median_course
from hpfl.tuning.space import configured_values, with_values

RUNNING, DONE, PRUNED, LOST, FAILED = "running", "done", "pruned", "lost", "failed"
CONFIGURED, BEST = "configured", "best"


@dataclass(kw_only=True)
class SearchTrial:
    """Values that are tried, with the runs they are tried in, by seed."""

    number: int
    params: Mapping[str, Any]
    parts: Mapping[int, StudyPart] = field(default_factory=dict)
    runs: dict[int, FoundRun] = field(default_factory=dict)
    state: str = RUNNING
    value: float | None = None
    why: str = ""

    @property
    def arrived(self) -> int:
        """How many runs have a value of their own."""
        return sum(run.value is not None for run in self.runs.values())


@dataclass(kw_only=True)
class Search:
    """Where the search of one case stands: its trials, all runs known by now, and whether there will be no more."""

    cell: Cell
    trials: list[SearchTrial] = field(default_factory=list)
    parts: list[StudyPart] = field(default_factory=list)
    fresh: Mapping[str, Mapping[int, StudyPart]] = field(default_factory=dict)
    """Runs of the best and the configured values on fresh seeds, once there is a best."""
    fresh_runs: dict[str, dict[int, FoundRun]] = field(default_factory=dict)
    to_come: int = 0
    known: list[Known] = field(default_factory=list)

    @property
    def best(self) -> SearchTrial | None:
        """The finished trial with the lowest score; the first of equals."""
        scored = [
            (known.score, trial)
            for known, trial in zip(self.known, self.trials, strict=False)
            if known.score is not None
        ]
        return min(scored, key=lambda pair: (pair[0], pair[1].number))[1] if scored else None


def searched(plan: TunePlan, cell: Cell, found: FoundRuns, book: Proposals, failed: Mapping[str, str]) -> Search:
    """Go through the trials as far as their runs are there; what is to be run now is among the parts."""
    search, settings = Search(cell=cell), plan.settings
    for first in range(0, settings.trials, settings.batch):
        batch = _proposed(plan, search, range(first, min(first + settings.batch, settings.trials)), book)
        after = (settings.trials - first - len(batch)) * len(plan.seeds) + plan.most_fresh
        ended = _tell(plan, search, batch, found, failed)
        if not ended:
            search.to_come = after + search.to_come
            search.trials += batch
            return search
        search.trials += batch
        search.known += [_known(plan, trial) for trial in batch]
    _add_fresh(plan, search, found)
    return search


def _proposed(plan: TunePlan, search: Search, numbers: range, book: Proposals) -> list[SearchTrial]:
    """The trials of a batch; each knows the values of those before it in the batch, not what they come to."""
    batch: list[SearchTrial] = []
    for number in numbers:
        known = [*search.known, *(Known(params=trial.params, waiting=True) for trial in batch)]
        ask = partial(_asked, plan, search.cell, known, number)
        params = book.of(search.cell.name, number, known, ask)
        batch.append(_trial(plan, search.cell, number, params, [*search.trials, *batch]))
    return batch


def _asked(plan: TunePlan, cell: Cell, known: Sequence[Known], number: int) -> Mapping[str, Any]:
    configured = configured_values(cell.config, plan.space) if number == 0 else None
    address = json.dumps([plan.settings.seed, cell.name, number])
    return configured or proposal(plan.space, known, sampler=plan.settings.sampler, address=address)


def _trial(
    plan: TunePlan, cell: Cell, number: int, params: Mapping[str, Any], before: Sequence[SearchTrial]
) -> SearchTrial:
    """A trial with its runs; values that were tried before have been run."""
    twin = next((trial for trial in before if trial.params == params), None)
    if twin is not None:
        return SearchTrial(
            number=number, params=params, parts=twin.parts, state=FAILED if twin.why else RUNNING, why=twin.why
        )
    try:
        config = with_values(cell.config, params)
    except ConfigError as error:
        return SearchTrial(number=number, params=params, state=FAILED, why=str(error))
    name = f"{cell.name}/trial-{number:0{len(str(plan.settings.trials - 1))}d}"
    keep_up = _keep_up(plan, before)
    ends = plan.objective.ends()
    parts = {
        seed: _part(plan, cell, config, f"{name}/{SEED}-{seed}", seed, ends | ({} if at or not keep_up else keep_up))
        for at, seed in enumerate(plan.seeds)
    }
    return SearchTrial(number=number, params=params, parts=parts)


def _keep_up(plan: TunePlan, before: Sequence[SearchTrial]) -> dict[str, Any]:
    """What the first seed of a trial is measured by: the first seeds of finished ones, never those of its batch."""
    settings, first = plan.settings, plan.seeds[0]
    finished = {id(trial.parts): trial.runs[first].course for trial in before if trial.state == DONE}
    if not plan.by or len(finished) < settings.prune_startup:
        return {}
    metric, less = plan.objective.watched
    made = median_course(list(finished.values()), by=plan.by, metric=metric, less=less, after=settings.prune_after)
    return {"keep_up": made} if made else {}


def _part(plan: TunePlan, cell: Cell, config: Config, name: str, seed: int, ends: Mapping[str, Any]) -> StudyPart:
    training = config.training.model_copy(update={"seed": seed})
    return StudyPart(
        name=name,
        labels={**cell.values, SEED: seed},
        config=config.model_copy(update={"training": training}).like(config),
        whole=True,
        code=code_of(config),
        ends=ends,
    )


def _tell(
    plan: TunePlan, search: Search, batch: Sequence[SearchTrial], found: FoundRuns, failed: Mapping[str, str]
) -> bool:
    """Read what is there of a batch, and add the runs that it needs now; whether it is over."""
    ended = True
    for trial in batch:
        for at, part in enumerate(trial.parts.values()):
            if part.name in failed:
                trial.state, trial.why = FAILED, failed[part.name]
                break
            search.parts += [part] if part not in search.parts else []
            run = found.of(part)
            if run is None:
                ended = False
                if plan.by and at == 0:
                    search.to_come += len(plan.seeds) - 1
                    break
                continue
            trial.runs[plan.seeds[at]] = run
            if run.behind:
                trial.state = PRUNED
                break
        if trial.state == RUNNING and len(trial.runs) == len(plan.seeds):
            _valued(plan, trial)
    return ended


def _valued(plan: TunePlan, trial: SearchTrial) -> None:
    counted = [run.counted for run in trial.runs.values()]
    known = [value for value in counted if value is not None]
    if len(known) < len(counted):
        lost = next((run.lost for run in trial.runs.values() if run.lost), "")
        trial.state, trial.why = LOST, lost or f"{plan.objective.name} is not known"
        return
    trial.state, trial.value = DONE, plan.objective.of_trial(known)


def _known(plan: TunePlan, trial: SearchTrial) -> Known:
    if trial.state == DONE and trial.value is not None:
        return Known(params=trial.params, score=plan.objective.score(trial.value))
    if trial.state == PRUNED:
        run, less = trial.runs[plan.seeds[0]], plan.objective.watched[1]
        level = run.course[1][-1]
        return Known(params=trial.params, stopped={run.rounds: level if less else -level})
    return Known(params=trial.params, failed=trial.state == FAILED)


def _add_fresh(plan: TunePlan, search: Search, found: FoundRuns) -> None:
    """The runs of the best and of the configured values on seeds that chose nothing."""
    best = search.best
    if best is None or not plan.fresh:
        return
    configured = configured_values(search.cell.config, plan.space)
    configs = {CONFIGURED: search.cell.config, BEST: with_values(search.cell.config, best.params)}
    made: dict[str, dict[int, StudyPart]] = {}
    for kind, config in configs.items():
        if kind == BEST and best.params == configured:
            made[kind] = made[CONFIGURED]
            continue
        name = f"{search.cell.name}/fresh-{kind}" + (f"-{best.number}" if kind == BEST else "")
        made[kind] = {
            seed: _part(plan, search.cell, config, f"{name}/{SEED}-{seed}", seed, plan.objective.ends())
            for seed in plan.fresh
        }
    search.fresh = made
    for kind, parts in made.items():
        runs = {seed: found.of(part) for seed, part in parts.items()}
        search.fresh_runs[kind] = {seed: run for seed, run in runs.items() if run is not None}
        search.parts += [part for part in parts.values() if part not in search.parts]
