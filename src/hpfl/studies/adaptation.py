"""Study `adaptation`: claim C1 with every system adapted as suits it, by samples that nobody trains or is tested on.

The paper measures HFL, whose model was trained for no adaptation, after the one short step that HPFL was trained for.
Here the step `alpha` and the number of steps after which a system is measured are those that are best for it on
validation samples: of each UE's labels, from the part of the training set that no UE owns.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpfl.arrays import IntArray
from hpfl.assembly import local_training, products, task_of, torch_dtype
from hpfl.config import Config, Experiment, resolve
from hpfl.data.dataset import Dataset, to_float
from hpfl.data.partition import as_labels, make_test_shards
from hpfl.data.shards import Shards
from hpfl.data.sources import load_dataset
from hpfl.dealing import Dealt, deal
from hpfl.experiment import Hooks, choose_device
from hpfl.learning import Computes, TestData, make_cohort
from hpfl.reporting.style import SERIES, percent_axis
from hpfl.rng import Streams
from hpfl.simulation.simulated_run import build_simulation
from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.curves import name, panels
from hpfl.studies.selection import MODES
from hpfl.studies.study import Found, Rows, Study, Tables
from hpfl.studies.tabulate import bands, differences, distinct, where
from hpfl.sweeps.parts import StudyPart
from hpfl.training.loop import train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
STEPS = (1, 2, 5, 10, 20, 50)
VALIDATION_SAMPLES = 50
"""Per UE; UEs may share them."""
SYSTEMS = ("hpfl", "hfl")
CLAIM = "C1 adapted"


def adapted_each_way(given: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Run as configured, then measure the last model after every number of steps of every length."""
    config = resolve(given)
    dataset = load_dataset(
        config.data.dataset, data_dir, progress=hooks.download, options=config.data.options("dataset")
    )
    chosen = choose_device(device)
    simulation = build_simulation(config, dataset, device=chosen, stopwatch=time.perf_counter)

    def watch(_state: TrainState, record: RoundRecord) -> bool:
        hooks.on_round(record)
        return not hooks.should_stop()

    state = train(simulation.start, simulation.parts, simulation.settings, watch)
    return {"adapted": _measured(config, dataset, state.params, device=chosen)}


def _measured(config: Experiment, dataset: Dataset, params: torch.Tensor, *, device: torch.device) -> Rows:
    """One row for each adaptation: mean accuracy on validation and test samples, and the personalised training loss."""
    streams = Streams(config.training.seed)
    dealt = deal(config, dataset, streams)
    tests = {"validation": validation_data(dataset, dealt, streams), "test": _test_data(dataset, dealt.test_shards)}
    cohort = make_cohort(
        task_of(config, input_shape=dataset.input_shape, num_outputs=dataset.num_outputs),
        local_training(config),
        inputs=torch.from_numpy(to_float(dataset, dataset.inputs[dealt.shards.order])),
        targets=torch.from_numpy(dataset.targets[dealt.shards.order]),
        shards=dealt.shards,
        device=device,
        dtype=torch_dtype(config),
        memory_gb=config.learning.memory_gb,
        products=products(config),
    )
    return [_row(cohort, params, tests, rate=rate, steps=steps) for rate in RATES for steps in STEPS]


def _row(
    cohort: Computes, params: torch.Tensor, tests: Mapping[str, TestData], *, rate: float, steps: int
) -> dict[str, Any]:
    found = {kind: cohort.evaluate(params, data, inner_lr=rate, inner_steps=steps) for kind, data in tests.items()}
    accuracies = {f"{kind}_accuracy": float(np.mean(made.personalised_accuracy)) for kind, made in found.items()}
    return {"inner_lr": rate, "inner_steps": steps, **accuracies, "meta_loss": _finite(found["test"].meta_loss)}


def _finite(losses: Any) -> float | None:
    mean = float(np.mean(losses))
    return mean if np.isfinite(mean) else None


def validation_data(dataset: Dataset, dealt: Dealt, streams: Streams) -> TestData:
    """Samples of each UE's labels, in its proportions, from the part of the training set that no UE owns."""
    unowned = np.ones(dataset.num_train, dtype=np.bool_)
    unowned[dealt.shards.source_rows()[0]] = False
    rows = np.flatnonzero(unowned)
    own = Streams(streams.at("validation").seed64())
    labels = as_labels(dataset.targets[rows])
    shards = make_test_shards(labels, dealt.label_counts, test_samples=VALIDATION_SAMPLES, streams=own)
    return _arranged(dataset.inputs, dataset.targets, rows[shards.order], dataset, shards)


def _test_data(dataset: Dataset, shards: Shards) -> TestData:
    return _arranged(dataset.test_inputs, dataset.test_targets, shards.order, dataset, shards)


def _arranged(inputs: Any, targets: Any, rows: IntArray, dataset: Dataset, shards: Shards) -> TestData:
    return TestData(torch.from_numpy(to_float(dataset, inputs[rows])), torch.from_numpy(targets[rows]), shards)


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """The runs of figures 3 and 4 again, whose last models are then adapted in every way."""
    grid = [(data, system, planner) for data in scale.setups for system in SYSTEMS for planner in MODES]
    return [_probed(scale, data, seed, system, planner) for seed in seeds for data, system, planner in grid]


def _probed(scale: Scale, data: str, seed: int, system: str, planner: str) -> StudyPart:
    part = case(scale, data, seed, system=system, planner=planner)
    return replace(part, name=f"adaptation/{part.name}", probe=adapted_each_way)


def tables(found: Sequence[Found]) -> Tables:
    """`chosen` (one row per run, adapted as validation says), its `means`, and the `grid` it was chosen from."""
    ended = [part for part in found if not part["diverged"] and part.get("adapted")]
    grid = [{**_labels(part), **row} for part in ended for row in part["adapted"]]
    chosen = [{**_labels(part), **_best(part["adapted"])} for part in ended]
    keys = ("data", "system", "planner")
    columns = ("test_accuracy", "validation_accuracy", "meta_loss", "inner_lr", "inner_steps")
    return {"means": bands(chosen, keys, columns), "chosen": chosen, "grid": grid}


def _labels(part: Found) -> dict[str, Any]:
    return {key: part["labels"][key] for key in ("data", "system", "planner", "seed")}


def _best(rows: Rows) -> dict[str, Any]:
    """The adaptation with the highest validation accuracy; of equals the one with fewer, then shorter steps."""
    return min(rows, key=lambda row: (-row["validation_accuracy"], row["inner_steps"], row["inner_lr"]))


def statements(made: Tables) -> list[Statement]:
    """C1 again, mode by mode."""
    return [
        statement
        for data in distinct(made["chosen"], "data")
        for mode in MODES
        for statement in _of(made["chosen"], data, mode)
    ]


def _of(chosen: Rows, data: str, mode: str) -> list[Statement]:
    ours, theirs = (where(chosen, data=data, system=system, planner=mode) for system in SYSTEMS)
    text = f"{name(data)}, {name(mode)}, each adapted as suits it: {{}} of HPFL less HFL's"
    return [
        Statement(
            claim=CLAIM, data=data, text=text.format("personalised accuracy"), unit="points",
            values=differences(ours, theirs, "test_accuracy"), least=0.0,
        ),
        Statement(
            claim=CLAIM, data=data, text=text.format("personalised training loss"), unit="nat",
            values=differences(ours, theirs, "meta_loss"), most=0.0,
        ),
    ]  # fmt: skip


def draw(made: Tables, folder: Path) -> list[Path]:
    """Test accuracy against the number of steps, a line per system and step length, full selection."""
    grid = [row for row in made["grid"] if row["planner"] == MODES[0]]
    cells = bands(grid, ("data", "system", "inner_lr", "inner_steps"), ("test_accuracy",))
    places = [(data, system) for data in distinct(cells, "data") for system in SYSTEMS]
    if not cells:
        return []

    def fill(index: int, axes: Any) -> None:
        data, system = places[index]
        for number, rate in enumerate(RATES):
            here = where(cells, data=data, system=system, inner_lr=rate)
            axes.plot(
                [row["inner_steps"] for row in here], [row["test_accuracy"] for row in here],
                marker="o", markersize=3.5, color=SERIES[number], label=f"alpha = {rate:g}",
            )  # fmt: skip
        both = [row["test_accuracy"] for row in where(cells, data=data)]
        percent_axis(axes, min(both), max(both))
        axes.set_xscale("log")
        axes.set_xticks(STEPS, [str(steps) for steps in STEPS])
        axes.set_xlabel("adaptation steps")
        axes.set_ylabel("personalised test accuracy")

    facts = (
        "How long should a model be adapted before it is measured?",
        "personalised test accuracy, mean over seeds, full selection; HPFL was trained for one short step",
    )
    titles = [f"{name(data)}, {system.upper()}" for data, system in places]
    return panels(folder / "adaptation", facts, titles, fill, rows=max(len(places) // 2, 1))


STUDY = Study(
    name="adaptation",
    title="HPFL and HFL, each adapted as suits it",
    about="The last models of figures 3 and 4, measured after 1 to 50 steps of 0.003 to 0.3. A run's test accuracy "
    "is taken with the adaptation that is best for it on validation samples, of which no UE owns one.",
    parts=parts,
    tables=tables,
    draw=draw,
    claims=statements,
    shown=("means",),
)
