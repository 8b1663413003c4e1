"""One experiment from configuration to results: load, assemble, train, watch, write down."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.assembly import fitted, metrics_of
from hpfl.config import Config, ConfigError, Experiment, idle_settings, resolve, with_overrides
from hpfl.data.dataset import Dataset, Progress
from hpfl.data.federated import FederatedData
from hpfl.data.sources import GIVEN, load_dataset
from hpfl.learning import Evaluation, NonFiniteUpdateError
from hpfl.network.radio import Recorder
from hpfl.reporting.figures import draw_at_the_end
from hpfl.reporting.folder import UES
from hpfl.reporting.journal import Journal
from hpfl.reporting.store import OutputError, RunStore
from hpfl.reporting.summary import environment, run_summary, ue_figures
from hpfl.reporting.table import write_table
from hpfl.simulation.simulated_run import Simulation, build_simulation
from hpfl.simulation.trace import TraceFile
from hpfl.training.cloud_step import DivergedError
from hpfl.training.loop import train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class RunResult:
    """What a run leaves: one flat record per round, a summary, the model by parameter name, figures per UE."""

    rounds: Records
    summary: dict[str, Any]
    model: dict[str, torch.Tensor]
    ues: dict[str, Any]
    completed: bool


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What only watches: told of every round, asked whether to stop, told in passing, told of downloads."""

    on_round: Callable[[RoundRecord], None] = lambda record: None
    should_stop: Callable[[], bool] = lambda: False
    note: Callable[[str], None] = lambda text: None
    download: Progress | None = None


def run(
    config: Config,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    figures: bool = True,
    device: str = "auto",
    data_dir: str | Path | None = None,
    data: FederatedData | Dataset | None = None,
    hooks: Hooks | None = None,
) -> RunResult:
    """Train as `config` says and return the results; with `out` they are written there too, with checkpoints.

    `out` must be empty, unless the run in it is to go on (`resume`) or to be replaced (`force`). `figures` draws
    pictures at the end, into `out/figures`. `device` is "cpu", "cuda" or "auto"; `data_dir` is where data sets are
    looked for before they are downloaded. `data` are samples of one's own instead of `config.data.dataset`; they bring
    the number of UEs and edges along.
    """
    say, hooks = (_warned, Hooks()) if hooks is None else (hooks.note, hooks)
    experiment = resolve(config)
    chosen = choose_device(device)

    def loaded() -> tuple[Experiment, Dataset]:
        fit, dataset = _with_data(experiment, data, data_dir, hooks)
        for line in idle_settings(fit, owned=dataset.owners is not None):
            say(line)
        return fit, dataset

    if out is None:
        return _run(*loaded(), None, resume=False, device=chosen, hooks=hooks)
    if resume and force:
        raise OutputError("--resume goes on with a run and --force starts it anew; wanted one of them")
    if resume and not Path(out).is_dir():
        raise OutputError(f"{out} does not exist, so there is no run in it to resume; leave out --resume to start one")
    with RunStore.open(Path(out), resume=resume, force=force) as store:
        result = _run(*loaded(), store, resume=resume, device=chosen, hooks=hooks)
    if figures:
        draw_at_the_end(Path(out), hooks.note)
    return result


def _warned(text: str) -> None:
    """Where nobody listens, what should be known comes as a warning."""
    warnings.warn(text, stacklevel=4)


def _with_data(
    given: Experiment, data: FederatedData | Dataset | None, data_dir: str | Path | None, hooks: Hooks
) -> tuple[Experiment, Dataset]:
    """The data set of a run, and the experiment with what the data say of the network."""
    config = given.written
    if data is None:
        name, options = config.data.dataset, given.data.options("dataset")
        dataset = load_dataset(name, Path(data_dir) if data_dir else None, progress=hooks.download, options=options)
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


def _run(
    config: Experiment, dataset: Dataset, store: RunStore | None, *, resume: bool, device: torch.device, hooks: Hooks
) -> RunResult:
    began = time.perf_counter()
    idle = idle_settings(config, owned=dataset.owners is not None)
    with _tracing(config, resume=resume) as record:
        simulation = build_simulation(config, dataset, device=device, stopwatch=time.perf_counter, record=record)
        with closing(_Watch(config, None if store is None else Journal(store, config), hooks)) as watch:
            state = watch.open(simulation.start, resume=resume)
            try:
                state = train(state, simulation.parts, simulation.settings, watch.after_round)
            except (DivergedError, NonFiniteUpdateError) as error:
                if store is not None and watch.records:
                    told = _summary(config, simulation, watch.records, began=began, device=device)
                    store.write_summary(told | {"diverged": True, "idle_settings": idle})
                raise DivergedError(f"round {len(watch.records) + 1}: {error}") from error
            watch.end(state)
    summary = _summary(config, simulation, watch.records, began=began, device=device) | {"idle_settings": list(idle)}
    model = {name: part.cpu() for name, part in simulation.task.spec.unflatten(state.params).items()}
    ues = _ue_table(simulation, state, simulation.evaluate_ues(state.params))
    result = RunResult(rounds=watch.records, summary=summary, model=model, ues=ues, completed=summary["completed"])
    if store is not None:
        _write(store, result)
    return result


@contextmanager
def _tracing(config: Experiment, *, resume: bool) -> Iterator[Recorder | None]:
    """What writes the run's trace down, where that is wanted."""
    network = config.network
    if not network.write_trace:
        yield None
        return
    sizes = {"num_ues": network.num_ues, "num_edges": network.edges}
    with closing(TraceFile(Path(network.write_trace), resume=resume, **sizes)) as trace:
        yield trace.record


class _Watch:
    """Keeps the records of one run in memory and, given a journal, on disk; asks whether to go on."""

    def __init__(self, config: Experiment, journal: Journal | None, hooks: Hooks) -> None:
        self.config, self.journal, self.hooks = config, journal, hooks
        self.records: Records = []

    def open(self, start: TrainState, *, resume: bool) -> TrainState:
        """The state to begin with: the newest whole checkpoint, or the start."""
        if self.journal is None:
            return start
        if resume:
            start = self._recovered(self.journal, start)
        else:
            self.journal.begin()
        self.journal.write_config()
        return start

    def after_round(self, state: TrainState, record: RoundRecord) -> bool:
        """Record, then save when it is time; answers whether to go on."""
        self.records.append(record.to_json())
        every = self.config.training.checkpoint_every
        if self.journal is not None:
            self.journal.append(record)
            if every and state.round % every == 0:
                self.journal.save(state)
        self.hooks.on_round(record)
        return not self.hooks.should_stop()

    def end(self, state: TrainState) -> None:
        """Save the last round, so that a stopped run loses nothing and a finished one can be prolonged."""
        if self.journal is not None and state.round > 0 and self.journal.saved_round != state.round:
            self.journal.save(state)

    def close(self) -> None:
        """Let go of the files, whether or not the run came to its end."""
        if self.journal is not None:
            self.journal.close()

    def _recovered(self, journal: Journal, start: TrainState) -> TrainState:
        state, self.records = journal.recovered(start, self.hooks.note)
        self.hooks.note(f"resuming after round {state.round}")
        return _on_device(state, start.params.device)


def _on_device(state: TrainState, device: torch.device) -> TrainState:
    return state.but(params=state.params.to(device), pending=state.pending.to(device))


def _summary(
    config: Experiment, simulation: Simulation, records: Records, *, began: float, device: torch.device
) -> dict[str, Any]:
    return {
        **run_summary(
            config,
            records,
            completed=len(records) >= config.training.rounds,
            num_parameters=simulation.task.spec.num_parameters,
            metrics=metrics_of(config),
        ),
        "test_samples": simulation.dealt.tests,
        "device": device.type,
        "wall_s": time.perf_counter() - began,
        "environment": environment(device=device.type),
    }


def _ue_table(simulation: Simulation, state: TrainState, evaluation: Evaluation) -> dict[str, Any]:
    """One row per UE, in the order and by the numbers of the samples' owners."""
    fleet, dealt = simulation.fleet, simulation.dealt
    columns = {
        "ue": dealt.ue_numbers,
        "edge": fleet.edge_of_ue,
        "samples": fleet.num_samples,
        "labels": _labels(dealt.label_counts > 0),
        **ue_figures(evaluation),
        "energy_j": state.joules,
    }
    order = np.argsort(dealt.ue_numbers)
    return {name: column[order] for name, column in columns.items()}


def _labels(held: NDArray[np.bool_]) -> NDArray[np.object_]:
    """The list of labels each UE has; UEs with the same labels share one list, for there may be a million UEs."""
    kinds, kind_of = np.unique(held, axis=0, return_inverse=True)
    lists = np.empty(len(kinds), dtype=object)
    lists[:] = [np.flatnonzero(kind).tolist() for kind in kinds]
    return lists[kind_of]


def _write(store: RunStore, result: RunResult) -> None:
    store.write_model(result.model)
    write_table(store.out / UES, result.ues)
    store.write_summary(result.summary)
