"""One experiment from configuration to results: load, assemble, train, watch, write down."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, IntArray
from hpfl.assembly import watchers_of
from hpfl.config import Config, ConfigError, Experiment, idle_settings, resolve, with_overrides
from hpfl.data.dataset import Dataset, DownloadProgress
from hpfl.data.federated import FederatedData
from hpfl.data.sources import GIVEN, load_dataset
from hpfl.dealing import fitted
from hpfl.learning import Evaluation, NonFiniteUpdateError
from hpfl.recorder import Listeners, RunRecorder, Subject
from hpfl.reporting.figures import draw_at_the_end
from hpfl.reporting.shown_result import ShownResult
from hpfl.reporting.store import OutputError, RunStore
from hpfl.reporting.summary import environment
from hpfl.simulation.attack_success import measured_of
from hpfl.simulation.simulated_run import Simulation, build_simulation
from hpfl.simulation.trace import TraceFile
from hpfl.spreading import Spread, Where, driver_device
from hpfl.training.cloud_step import DivergedError
from hpfl.training.loop import AfterRound, train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Functions that are told of every round, asked whether to stop, told in passing, told of downloads.

    `warn` is told what should be known; None: `note` is. An error in one of them stops the run; a `Watcher` hears more
    and stops nothing.
    """

    on_round: Callable[[RoundRecord], None] = lambda record: None
    should_stop: Callable[[], bool] = lambda: False
    note: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] | None = None
    download: DownloadProgress | None = None
    dataset: Callable[..., Dataset] = load_dataset
    """How a data set is read by its name; whoever plays many runs keeps what was read."""


def run_experiment(
    config: Config | Experiment,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    figures: bool = True,
    device: str = "auto",
    data_dir: str | Path | None = None,
    data: FederatedData | Dataset | None = None,
    hooks: Hooks | None = None,
    watchers: Sequence[Watcher] = (),
    spread: Spread | None = None,
) -> ShownResult:
    """Train as `config` says and return the results; with `out` they are written there too, with checkpoints.

    `out` must be empty, unless the run in it is to go on (`resume`) or to be replaced (`force`). `figures` draws
    pictures at the end, into `out/figures`. `device` is "cpu", "cuda" or "auto"; `data_dir` is where data sets are
    looked for before they are downloaded. `data` are samples of one's own instead of `config.data.dataset`; they bring
    the number of UEs and edges along. `watchers` are told what happens and change nothing. `spread` has workers
    elsewhere compute (None: this process does). Nothing is shown.
    """
    hooks = hooks or Hooks(warn=warned)
    say = hooks.warn or hooks.note
    experiment = resolve(config)
    named = watchers_of(experiment, None if out is None else Path(out))
    heard = _Heard(hooks, [*named, *watchers], say)
    how = Where(choose_device(device) if spread is None else driver_device(device), spread)

    def loaded() -> tuple[Experiment, Dataset]:
        fit, dataset = _with_data(experiment, data, data_dir, hooks)
        for line in idle_settings(fit, owned=dataset.owners is not None):
            say(line)
        return fit, dataset

    if out is None:
        return _run(*loaded(), None, resume=False, how=how, heard=heard)
    if resume and force:
        raise OutputError("--resume goes on with a run and --force starts it anew; wanted one of them")
    if resume and not Path(out).is_dir():
        raise OutputError(f"{out} does not exist, so there is no run in it to resume; leave out --resume to start one")
    with RunStore.open(Path(out), resume=resume, force=force) as store:
        result = _run(*loaded(), store, resume=resume, how=how, heard=heard)
    if figures:
        draw_at_the_end(Path(out), hooks.note)
    return result


def warned(text: str) -> None:
    """Where nobody listens, what should be known comes as a warning."""
    warnings.warn(text, stacklevel=5)


def _with_data(
    given: Experiment, data: FederatedData | Dataset | None, data_dir: str | Path | None, hooks: Hooks
) -> tuple[Experiment, Dataset]:
    """The data set of a run, and the experiment with what the data say of the network."""
    config = given.written
    if data is None:
        name, options = config.data.dataset, given.data.options("dataset")
        dataset = hooks.dataset(name, Path(data_dir) if data_dir else None, progress=hooks.download, options=options)
    else:
        dataset = data.dataset if isinstance(data, FederatedData) else data
        config = with_overrides(config, [f"data.dataset={GIVEN}"])
    fit = fitted(config, dataset)
    return given if fit is given.written else resolve(fit), dataset


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device is {name!r}; wanted auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is 'cuda', but PyTorch finds no CUDA device here")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class _Heard:
    """Who hears of a run, and where it is said what should be known."""

    hooks: Hooks
    watchers: Sequence[Watcher]
    say: Callable[[str], None]


@dataclass(frozen=True)
class _Hooked(Watcher):
    """Hooks among the watchers."""

    hooks: Hooks

    def round(self, state: TrainState, record: RoundRecord) -> None:
        self.hooks.on_round(record)


def _run(
    config: Experiment, dataset: Dataset, store: RunStore | None, *, resume: bool, how: Where, heard: _Heard
) -> ShownResult:
    began, device = time.perf_counter(), how.device
    idle = idle_settings(config, owned=dataset.owners is not None)
    with how.cohorts(heard.hooks.note) as make, _tracing(config, resume=resume) as trace:
        drawn = None if trace is None else trace.record
        rows = None if store is None else store.rows
        kind: dict[str, Any] = {"device": device, "make": make, "record": drawn}
        simulation = build_simulation(config, dataset, **kind, stopwatch=time.perf_counter, rows=rows)

        def facts() -> dict[str, Any]:
            return {
                "test_samples": simulation.dealt.tests,
                "device": device.type,
                "wall_s": time.perf_counter() - began,
                "environment": environment(device=device.type),
                "idle_settings": list(idle),
                **how.facts,
            }

        listeners = _listeners(heard, trace)
        recorder = RunRecorder(_subject(config, simulation, facts), store, listeners)
        state = recorder.open(simulation.start, resume=resume)
        if store is not None and resume:
            listeners.note(f"resuming after round {state.round}")
        recorder.started(state)
        return _played(simulation, recorder, state)


def _listeners(heard: _Heard, trace: TraceFile | None) -> Listeners:
    hooks = heard.hooks
    return Listeners(
        watchers=heard.watchers,
        keepers=[*([] if trace is None else [trace]), _Hooked(hooks)],
        note=hooks.note,
        warn=heard.say,
        should_stop=hooks.should_stop,
    )


def _played(simulation: Simulation, recorder: RunRecorder, state: TrainState) -> ShownResult:
    """All rounds, and what they come to."""
    numbers = simulation.dealt.ue_numbers

    def heard(round_number: int, evaluation: Evaluation, ues: IntArray) -> None:
        recorder.evaluated(round_number, evaluation, numbers[ues])

    parts = simulation.heard_by(heard)

    def play(state: TrainState, after_round: AfterRound) -> TrainState:
        return train(state, parts, simulation.settings, after_round)

    try:
        return recorder.recorded(state, play)
    except (DivergedError, NonFiniteUpdateError) as error:
        raise DivergedError(f"round {len(recorder.records) + 1}: {error}") from error


@contextmanager
def _tracing(config: Experiment, *, resume: bool) -> Iterator[TraceFile | None]:
    """What writes the run's trace down, where that is wanted."""
    network = config.network
    if not network.write_trace:
        yield None
        return
    sizes = {"num_ues": network.num_ues, "num_edges": network.edges}
    with closing(TraceFile(Path(network.write_trace), resume=resume, **sizes)) as trace:
        yield trace


def _subject(config: Experiment, simulation: Simulation, facts: Callable[[], dict[str, Any]]) -> Subject:
    fleet, dealt = simulation.fleet, simulation.dealt
    return Subject(
        config=config,
        spec=simulation.task.spec,
        metrics=measured_of(config),
        facts=facts,
        ues={
            "ue": dealt.ue_numbers,
            "edge": fleet.edge_of_ue,
            "samples": fleet.num_samples,
            "labels": _labels(dealt.label_counts > 0),
            **({} if simulation.hostile is None else {"hostile": simulation.hostile}),
            **({} if simulation.newcomers is None else {"held_out": simulation.newcomers}),
        },
        evaluation=simulation.evaluate_ues,
        save_every=config.training.checkpoint_every,
        deployed=False,
    )


def _labels(held: BoolArray) -> NDArray[np.object_]:
    """The list of labels each UE has; UEs with the same labels share one list, for there may be a million UEs."""
    packed = np.ascontiguousarray(np.packbits(held, axis=1))  # one key a UE, which sorts faster than rows
    keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0] if packed.shape[1] > 1 else packed[:, 0]
    _, first, kind_of = np.unique(keys, return_index=True, return_inverse=True)
    lists = np.empty(len(first), dtype=object)
    lists[:] = [np.flatnonzero(held[ue]).tolist() for ue in first]
    return lists[kind_of]
