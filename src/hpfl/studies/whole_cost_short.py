"""Short runs that keep nothing while they run, as they are and with one edge's UEs ten times slower.

There are thousands of them, of seconds each: no checkpoints are written, and a process reads its data once.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.config import Config, resolve
from hpfl.data.dataset import Dataset
from hpfl.data.sources import load_dataset
from hpfl.experiment import Hooks, choose_device
from hpfl.simulation.simulated_run import Simulation, build_simulation
from hpfl.simulation.virtual_executor import SimulatedExecutor
from hpfl.training.loop import Parts, train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

SLOW_EDGE = 3
TIMES_SLOWER = 10.0


def as_it_is(given: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Run as configured."""
    simulation = _simulation(given, device=device, data_dir=data_dir)
    return _played(simulation, simulation.parts, hooks)


def with_slow_edge(given: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Run as configured, but with the UEs of one edge slowed down, which no key of a configuration says."""
    simulation = _simulation(given, device=device, data_dir=data_dir)
    return _played(simulation, slowed(simulation), hooks)


def slowed(simulation: Simulation) -> Parts:
    """The parts of a run whose fleet has a slow edge."""
    executor = simulation.parts.executor
    assert isinstance(executor, SimulatedExecutor)
    fleet = executor.fleet
    cpu_hz = np.where(fleet.edge_of_ue == SLOW_EDGE, fleet.cpu_hz / TIMES_SLOWER, fleet.cpu_hz)
    return replace(simulation.parts, executor=replace(executor, fleet=replace(fleet, cpu_hz=cpu_hz)))


def _simulation(given: Config, *, device: str, data_dir: Path | None) -> Simulation:
    config = resolve(given)
    dataset = _dataset(config.data.dataset, data_dir)
    return build_simulation(config, dataset, device=choose_device(device), stopwatch=time.perf_counter)


@lru_cache(maxsize=1)
def _dataset(name: str, data_dir: Path | None) -> Dataset:
    return load_dataset(name, data_dir)


def _played(simulation: Simulation, parts: Parts, hooks: Hooks) -> Mapping[str, Any]:
    def watch(_state: TrainState, record: RoundRecord) -> bool:
        hooks.on_round(record)
        return not hooks.should_stop()

    train(simulation.start, parts, simulation.settings, watch)
    return {}
