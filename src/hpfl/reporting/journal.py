"""What a run keeps on disk while it goes: a record and a piece of the timeline per round, and checkpoints."""

from collections.abc import Callable
from typing import Any

from hpfl.config import ConfigError, Experiment, differences, to_toml
from hpfl.reporting.checkpoint import Loaded, OtherConfigurationError, load_latest, save_checkpoint
from hpfl.reporting.folder import CONFIG, TIMELINE
from hpfl.reporting.store import RunStore, read_config, read_rounds
from hpfl.reporting.timeline import TimelineFile
from hpfl.training.evaluation_summary import evaluation_is_due
from hpfl.training.record import RoundRecord, evaluated_columns
from hpfl.training.state import TrainState
from hpfl.training.watching import Watcher


class Journal(Watcher):
    """Records and checkpoints of one run, simulated or real, and its `timeline`, which is told of rounds before it."""

    def __init__(self, store: RunStore, config: Experiment) -> None:
        self.saved_round = -1
        self._store, self._config, self._fingerprint = store, config, config.fingerprint
        self.timeline = TimelineFile(store.out)

    def begin(self) -> None:
        """Start with the first round, in the place of the run that is to be replaced if there is one."""
        self._store.begin()

    def write_config(self) -> None:
        """Leave the configuration beside what it leads to."""
        self._store.write_config(to_toml(self._config))

    def recovered(self, start: TrainState, note: Callable[[str], None]) -> tuple[TrainState, list[dict[str, Any]]]:
        """The newest whole checkpoint, or the start, and the records up to it; whatever came later is dropped."""
        loaded = self._latest(self._intact(note))
        for told in loaded.notes:
            note(told)
        state, rounds = loaded.state or start, self._config.training.rounds
        if state.round > rounds:
            raise ConfigError(f"training.rounds is {rounds}; the run to resume has done {state.round} already")
        self._store.rewind(state.round)
        self.timeline.rewind(state.round)
        self.saved_round = state.round
        return state, self._prolonged(read_rounds(self._store.out))

    def _latest(self, at_most: int) -> Loaded:
        """The newest whole checkpoint; that of another configuration is refused with the keys that differ."""
        try:
            return load_latest(self._store.checkpoints, fingerprint=self._fingerprint, at_most=at_most)
        except OtherConfigurationError as error:
            there = read_config(self._store.out)
            told = differences(self._config, there) if there else ""
            other = told or f"{self._store.out / CONFIG} does not tell which, or another version of hpfl began it"
            raise OtherConfigurationError(
                f"the run in {self._store.out} has another configuration: {other}; resume it with the {CONFIG} in its "
                "folder, or choose another --out"
            ) from error

    def _prolonged(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records without the evaluation that the last one has only because the run was to end there."""
        every, rounds = self._config.evaluation.every, self._config.training.rounds
        columns = evaluated_columns(records[-1]) if records else ()
        due = evaluation_is_due(len(records), every=every, rounds=rounds)
        if not due and any(records[-1][name] is not None for name in columns):
            records[-1] |= dict.fromkeys(columns)
            self._store.amend_last(records[-1])
        return records

    def _intact(self, note: Callable[[str], None]) -> int:
        """The last round up to which records and timeline are whole."""
        drawn = self.timeline.last_round()
        if drawn is None:
            return self._store.last_round
        note(f"{TIMELINE} is damaged after round {drawn}; if it is removed, its later rounds need not be run again")
        return min(drawn, self._store.last_round)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Hand a round to the operating system: a killed process does not lose it."""
        self._store.append(record)

    def save(self, state: TrainState) -> None:
        """Have everything up to this round on the disk, with a checkpoint to go on from."""
        self.timeline.sync()
        self._store.sync()
        save_checkpoint(self._store.checkpoints, state, fingerprint=self._fingerprint)
        self.saved_round = state.round
