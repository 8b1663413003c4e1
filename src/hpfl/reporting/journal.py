"""What a run keeps on disk while it goes: a record and a piece of the timeline per round, and checkpoints.

A checkpoint vouches for every file of the run's history as it is then: how far it reaches, and its digest. Whoever goes
on from it finds a changed digit in what lies before; what lies after is dropped and played again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpfl import atomic
from hpfl.config import ConfigError, Experiment, differences, to_toml
from hpfl.histories import History, Mark, holds, size_of
from hpfl.reporting.checkpoint import (
    CheckpointError,
    HistoryMarks,
    Loaded,
    OtherConfigurationError,
    load_latest,
    save_checkpoint,
)
from hpfl.reporting.config_file import with_digest
from hpfl.reporting.drawn_file import DrawnFile
from hpfl.reporting.folder import CHECKPOINTS, CONFIG, ROUNDS, SCENES, SUMMARY, TIMELINE
from hpfl.reporting.scenes import SceneFile
from hpfl.reporting.store import RunStore, read_config, read_rounds
from hpfl.reporting.timeline import TimelineFile
from hpfl.row_folder import Noted
from hpfl.training.evaluation_summary import evaluation_is_due
from hpfl.training.record import RoundRecord, evaluated_columns
from hpfl.training.state import TrainState
from hpfl.training.watching import Watcher


class Journal(Watcher):
    """Records and checkpoints of one run, simulated or real, and what is `drawn`, which is told of rounds before it.

    `histories` are further files that a checkpoint vouches for. One is written every `save_every` rounds (0: at the end
    alone). `anew` says how somebody begins such a run again.
    """

    def __init__(
        self, store: RunStore, config: Experiment, *, save_every: int, anew: str, histories: Sequence[History] = ()
    ) -> None:
        self.saved_round = -1
        self._store, self._config, self._fingerprint = store, config, config.fingerprint
        self._save_every, self._anew = save_every, anew
        self.timeline, self.scenes = TimelineFile(store.out), SceneFile(store.out)
        self.drawn: list[DrawnFile] = [self.timeline, self.scenes]
        self._histories: list[History] = [*self.drawn, *histories]
        self._begins: Mapping[str, Any] = {}

    def begin(self) -> None:
        """Start with the first round, in the place of the run that is to be replaced if there is one."""
        self._store.begin()

    def write_config(self) -> None:
        """Leave the configuration beside what it leads to."""
        self._store.write_config(with_digest(to_toml(self._config)))

    def recovered(self, start: TrainState, note: Callable[[str], None]) -> tuple[TrainState, list[dict[str, Any]]]:
        """The newest whole checkpoint, or the start, and the records up to it; whatever came later is dropped."""
        self._begins = start.kept
        loaded = self._whole(note)
        for told in loaded.notes:
            note(told)
        state, rounds = loaded.state or start, self._config.training.rounds
        state = state.but(kept=self._store.rows.placed(state.kept, start.kept))
        if state.round > rounds:
            raise ConfigError(f"training.rounds is {rounds}; the run to resume has done {state.round} already")
        self._store.rewind(state.round)
        self.saved_round = state.round
        self._go_on(state, loaded.marks, note)
        return state, self._prolonged(state, read_rounds(self._store.out))

    def _whole(self, note: Callable[[str], None]) -> Loaded:
        """The checkpoint to go on from; no number depends on what is drawn, so a file that fits none is put away."""
        try:
            loaded = self._latest(self._histories)
        except OtherConfigurationError:
            raise
        except CheckpointError:
            loaded = self._latest(self._histories[len(self.drawn) :])
            for one in self.drawn:
                if self._misfit(one, loaded):
                    note(f"{one.path.name} is damaged; it was put away as {one.set_aside().name}, and another begins")
        if loaded.state is None:
            self._refuse_what_was_saved(note)
        return loaded

    def _misfit(self, one: DrawnFile, loaded: Loaded) -> bool:
        """Whether a file is not what a checkpoint vouches for, or has no line that can be read where none does."""
        if not one.path.exists():
            return False
        if loaded.marks:
            told = loaded.marks.get(one.path.name)
            return told is not None and not holds(one.path, told)
        return one is self.timeline and self.timeline.last_round() is not None

    def _refuse_what_was_saved(self, note: Callable[[str], None]) -> None:
        """Without a checkpoint a run begins again, unless one must have been there: then nothing is dropped unasked."""
        rounds, every = self._store.num_lines, self._save_every
        if (every and rounds > every) or (self._store.out / SUMMARY).exists():
            raise CheckpointError(
                f"{self._store.out / ROUNDS} has {rounds} rounds, and {CHECKPOINTS}/ beside it has no checkpoint to go "
                f"on from; put {CHECKPOINTS}/ back from a copy, or {self._anew}"
            )
        if rounds:
            note(f"no checkpoint was due yet: the {rounds} rounds in {ROUNDS} are run again")

    def _latest(self, histories: Sequence[History]) -> Loaded:
        """The newest whole checkpoint that histories fit; that of another configuration is refused with the keys."""

        def fits(number: int, marks: HistoryMarks) -> str:
            return self._damage(number, marks, histories)

        try:
            return load_latest(
                self._store.checkpoints, fingerprint=self._fingerprint, fits=fits, restored=self._rows_restored
            )
        except OtherConfigurationError as error:
            there = read_config(self._store.out)
            told = differences(self._config, there) if there else ""
            other = told or f"{self._store.out / CONFIG} does not tell which, or another version of hpfl began it"
            raise OtherConfigurationError(
                f"the run in {self._store.out} has another configuration: {other}; resume it with the {CONFIG} in its "
                "folder, or choose another --out"
            ) from error
        except CheckpointError as error:
            raise CheckpointError(f"{error}; put what is damaged back from a copy, or {self._anew}") from error

    def _rows_restored(self, number: int, notes: Mapping[str, Noted]) -> dict[str, Any]:
        return self._store.rows.restored(number, notes, self._begins)

    def _damage(self, number: int, marks: HistoryMarks, histories: Sequence[History]) -> str:
        """Why a checkpoint and the history do not belong together; earlier versions left no marks in theirs."""
        if not marks:
            return self._damaged_lines(number, drawn=self.timeline in histories)
        damage = self._store.damage(marks[ROUNDS], number)
        for history in histories:
            name = history.path.name
            if not damage and name in marks and history.path.exists() and not holds(history.path, marks[name]):
                damage = f"{name} is not what was written up to round {number} ({history.way_on})"
        return damage

    def _damaged_lines(self, number: int, *, drawn: bool) -> str:
        """Which of records and timeline has a line before a round's end that cannot be read."""
        whole = self.timeline.last_round() if drawn else None
        if self._store.last_round < number:
            return f"{ROUNDS} is intact up to round {self._store.last_round} only"
        if whole is not None and whole < number:
            return f"{TIMELINE} is damaged after round {whole} ({self.timeline.way_on})"
        return ""

    def _go_on(self, state: TrainState, marks: HistoryMarks, note: Callable[[str], None]) -> None:
        """Drop what came after the checkpoint; a history that is not there begins anew, which the checkpoint says."""
        if not marks:
            self.timeline.rewind(state.round)
        if SCENES not in marks:  # earlier versions wrote none, so nobody vouches for what a later one began
            self.scenes.go_on(Mark().told())
        known = [history for history in self._histories if history.path.name in marks]
        missing = [h.path.name for h in known if size_of(marks[h.path.name]) and not h.path.exists()]
        for history in known:
            history.go_on(marks[history.path.name])
        for name in missing:
            note(f"{name} is missing; another begins after round {state.round}")
        if missing:
            self.save(state)

    def _prolonged(self, state: TrainState, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records without the evaluation that the last one has only because the run was to end there."""
        every, rounds = self._config.evaluation.every, self._config.training.rounds
        columns = evaluated_columns(records[-1]) if records else ()
        due = evaluation_is_due(len(records), every=every, rounds=rounds)
        if not due and any(records[-1][name] is not None for name in columns):
            records[-1] |= dict.fromkeys(columns)
            self._store.amend_last(records[-1])
            self.save(state)  # which vouches for the records as they are now
        return records

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Hand a round to the operating system: a killed process does not lose it."""
        self._store.append(record)

    def save(self, state: TrainState) -> None:
        """Have everything up to this round on the disk, with a checkpoint to go on from."""
        atomic.sync_all([self._store.out / ROUNDS, *(path for one in self._histories for path in one.unsynced())])
        marks = {history.path.name: history.mark() for history in self._histories} | {ROUNDS: self._store.mark()}
        store = self._store
        save_checkpoint(store.checkpoints, state, fingerprint=self._fingerprint, marks=marks, rows=store.rows)
        self.saved_round = state.round
