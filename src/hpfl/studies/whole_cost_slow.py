"""A run in which one edge's UEs compute ten times slower than the others, which no key of a configuration says."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.config import Config, resolve
from hpfl.data.sources import load_dataset
from hpfl.experiment import Hooks, choose_device
from hpfl.simulation.simulated_run import Simulation, build_simulation
from hpfl.simulation.virtual_executor import SimulatedExecutor
from hpfl.training.loop import Parts, train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

SLOW_EDGE = 3
TIMES_SLOWER = 10.0


def with_slow_edge(given: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Run as configured, but with the UEs of one edge slowed down."""
    config = resolve(given)
    dataset = load_dataset(
        config.data.dataset, data_dir, progress=hooks.download, options=config.data.options("dataset")
    )
    simulation = build_simulation(config, dataset, device=choose_device(device), stopwatch=time.perf_counter)

    def watch(_state: TrainState, record: RoundRecord) -> bool:
        hooks.on_round(record)
        return not hooks.should_stop()

    train(simulation.start, slowed(simulation), simulation.settings, watch)
    return {}


def slowed(simulation: Simulation) -> Parts:
    """The parts of a run whose fleet has a slow edge."""
    executor = simulation.parts.executor
    assert isinstance(executor, SimulatedExecutor)
    fleet = executor.fleet
    cpu_hz = np.where(fleet.edge_of_ue == SLOW_EDGE, fleet.cpu_hz / TIMES_SLOWER, fleet.cpu_hz)
    return replace(simulation.parts, executor=replace(executor, fleet=replace(fleet, cpu_hz=cpu_hz)))
