"""What is kept and told of a run while it goes and when it ends, the same for simulated and for real ones."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.config import Experiment, to_toml
from hpfl.histories import History
from hpfl.learning import BoundMetric, Evaluation, NonFiniteUpdateError, ParameterSpec
from hpfl.private_runs import is_out_of_budget
from hpfl.reporting.folder import ROUNDS, UES
from hpfl.reporting.frames import RoundRecords, UeColumns
from hpfl.reporting.journal import Journal
from hpfl.reporting.runs import named_folder
from hpfl.reporting.shown_result import ShownResult
from hpfl.reporting.store import RunStore, is_summed_up, read_rounds
from hpfl.reporting.summary import run_summary, spread_over_ues, ue_figures
from hpfl.reporting.table import write_table
from hpfl.training.cloud_step import DivergedError
from hpfl.training.loop import AfterRound
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Audience, Run, RunResult, Watcher

Say = Callable[[str], None]
Play = Callable[[TrainState, AfterRound], TrainState]
"""Plays rounds from a state on, tells of each, and gives the last state."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a recorder must know of a run to write its results.

    `facts` are what its summary says besides what follows from records and configuration. The table of UEs begins with
    the columns `ues`, of which one is `ue`, their numbers; `evaluation` gives the figures of every UE at the end, NaN
    where there are none. A checkpoint is written every `save_every` rounds (0: at the end alone).
    """

    config: Experiment
    spec: ParameterSpec
    metrics: Sequence[BoundMetric]
    facts: Callable[[], Mapping[str, Any]]
    ues: Mapping[str, Any]
    evaluation: Callable[[TrainState], Evaluation]
    save_every: int
    deployed: bool


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Who hears of a run: watchers, keepers (without whom it does not go on), and where notes and warnings are said.

    `histories` are what keepers write and a checkpoint vouches for.
    """

    watchers: Sequence[Watcher] = ()
    keepers: Sequence[Watcher] = ()
    histories: Sequence[History] = ()
    note: Say
    warn: Say
    should_stop: Callable[[], bool]


class RunRecorder:
    """Keeps the record of one run: `open` it, tell that it has `started`, have it `recorded`.

    Of every round the journal is told first, then the keepers, then the watchers; then it is saved, when it is time.
    """

    def __init__(self, subject: Subject, store: RunStore | None, listeners: Listeners) -> None:
        self._told: list[dict[str, Any]] = []
        self._subject, self._store, self._listeners = subject, store, listeners
        self._journal = None if store is None else self._opened(store)
        kept = [] if self._journal is None else [*self._journal.drawn, self._journal]
        self._audience = Audience(listeners.watchers, keepers=[*kept, *listeners.keepers], warn=listeners.warn)
        self._figures: tuple[int, Mapping[str, FloatArray], IntArray] | None = None
        self.state: TrainState | None = None
        self.has_written = False

    def open(self, start: TrainState, *, resume: bool) -> TrainState:
        """The state to begin with: the newest whole checkpoint of the run that goes on, or the start."""
        if self._journal is None:
            return start
        if resume:
            state, _ = self._journal.recovered(start, self._listeners.note)
            start = state.to(start.params.device)
        else:
            self._journal.begin()
        self._journal.write_config()
        return start

    def started(self, state: TrainState) -> None:
        """Tell everybody that the run begins with `state`, or goes on with it."""
        config, self.state = self._subject.config, state
        run = Run(
            config=config,
            folder=self._folder,
            deployed=self._subject.deployed,
            state=state,
            rounds=config.training.rounds,
            num_edges=config.network.edges,
            num_ues=config.network.num_ues,
            num_parameters=self._subject.spec.num_parameters,
        )
        self._audience.tell("started", run)

    def evaluated(self, round_number: int, figures: Mapping[str, FloatArray], ues: IntArray) -> None:
        """Take the figures of the UEs that were evaluated; they are passed on once the round is recorded."""
        self._figures = round_number, figures, ues

    def after_round(self, state: TrainState, record: RoundRecord) -> bool:
        """Record, tell, then save when it is time; answers whether to go on."""
        self.state = state
        if self._store is None:
            self._told.append(record.to_json())
        self._audience.tell("round", state, record)
        if self._figures is not None:
            self._audience.tell("evaluated", *self._figures)
            self._figures = None
        every = self._subject.save_every
        if every and state.round % every == 0:
            self._save(state)
        return not self._listeners.should_stop()

    def recorded(self, state: TrainState, play: Play) -> ShownResult:
        """Play from `state` on, leave the results, and tell how it ended, whatever happened."""
        try:
            state = play(state, self.after_round)
            self._save(state)
            result = self._result(state)
            self._write(result)
        except BaseException as error:
            self.break_off(error)
            raise
        self._audience.tell("ended", result)
        return result

    def break_off(self, error: BaseException) -> None:
        """Tell everybody that the run has diverged or failed; what there is of one that diverged is written down."""
        with suppress(Exception):  # the first error is the one to tell
            self._audience.tell("ended", self._broken_off(error))

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat record per round; those of a run with a folder lie there, for a long run's would fill the memory."""
        if self._store is None:
            return self._told
        return read_rounds(self._store.out) if (self._store.out / ROUNDS).exists() else []

    def _opened(self, store: RunStore) -> Journal:
        subject, histories = self._subject, self._listeners.histories
        anew = "begin anew in another folder" if subject.deployed else "begin anew with --force or in another --out"
        return Journal(store, subject.config, save_every=subject.save_every, anew=anew, histories=histories)

    @property
    def _folder(self) -> Path | None:
        return None if self._store is None else self._store.out

    def _save(self, state: TrainState) -> None:
        """Save a round that is not yet, so that a stopped run loses nothing and a finished one can be prolonged."""
        if self._journal is not None and state.round > 0 and self._journal.saved_round != state.round:
            self._journal.save(state)
            self._audience.tell("saved", state.round)

    def _result(self, state: TrainState) -> ShownResult:
        subject, records = self._subject, self.records
        ues = ue_table(subject.ues, subject.evaluation(state), state.joules)
        summary = {**self._summary(records), **spread_over_ues(ues)}
        return ShownResult(
            rounds=RoundRecords(records),
            summary=summary,
            model=_model(subject.spec, state.params),
            ues=UeColumns(ues),
            how="completed" if summary["completed"] else "stopped",
            label="run" if self._folder is None else named_folder(self._folder).name,
            folder=self._folder,
            settings=partial(_settings, subject.config),
            deployed=subject.deployed,
        )

    def _summary(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        config, spec = self._subject.config, self._subject.spec
        spent = self.state is not None and is_out_of_budget(config, self.state, deployed=self._subject.deployed)
        completed = len(records) >= config.training.rounds or spent
        told = run_summary(
            config,
            records,
            completed=completed,
            num_parameters=spec.num_parameters,
            metrics=self._subject.metrics,
        )
        epsilon = records[-1].get("epsilon") if records else 0.0
        privacy = {"epsilon": epsilon, "delta": config.privacy.delta, "budget_spent": spent}
        return {**told, **(privacy if config.privacy.on else {}), **self._subject.facts()}

    def _write(self, result: RunResult) -> None:
        """Model, table of UEs and summary. A cloud that is stopped comes back; one that came back has heard nothing.

        So what it came to before stays, if it can be read.
        """
        if self._store is None:
            return
        if self._subject.deployed and not result.completed:
            return
        self._store.write_model(result.model)
        if self._subject.deployed and is_summed_up(self._store.out):
            return
        write_table(self._store.out / UES, result.ues)
        self._store.write_summary(result.summary)
        self.has_written = True

    def _broken_off(self, error: BaseException) -> RunResult:
        """What there is of a run that diverged, which is written down, or that failed."""
        records = self.records
        if not isinstance(error, DivergedError | NonFiniteUpdateError):
            return RunResult(rounds=records, how="failed", error=str(error) or type(error).__name__)
        summary = self._summary(records) | {"completed": False, "diverged": True}
        if self._store is not None and (records or self._subject.deployed):
            self._store.write_summary(summary)
        return RunResult(rounds=records, summary=summary, how="diverged", error=str(error))


def _model(spec: ParameterSpec, params: torch.Tensor) -> dict[str, torch.Tensor]:
    """The model's parameters by name, without what its method shares beside it."""
    parts = spec.unflatten(params).items()
    return {name: part.detach().cpu().clone() for name, part in parts if name not in spec.beside}


def _settings(config: Experiment) -> Mapping[str, Any]:
    """A configuration as its file has it."""
    return tomllib.loads(to_toml(config))


def ue_table(ues: Mapping[str, Any], evaluation: Evaluation, joules: FloatArray) -> dict[str, Any]:
    """One row per UE, in the order of their numbers: who it is, its figures, the energy it spent (J)."""
    order = np.argsort(ues["ue"])
    return {name: column[order] for name, column in {**ues, **ue_figures(evaluation), "energy_j": joules}.items()}
