"""The round problems that a run poses to its planner, noted for others to plan them too."""

import time
from dataclasses import replace
from pathlib import Path

from hpfl.config import Config, resolve
from hpfl.data.sources import load_dataset
from hpfl.experiment import Hooks, choose_device
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.rng import Stream
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

Posed = list[tuple[RoundProblem, Stream]]


def posed_problems(given: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Posed:
    """Run as configured, and hand back every round's problem with the stream its planner drew from."""
    config = resolve(given)
    dataset = load_dataset(
        config.data.dataset, data_dir, progress=hooks.download, options=config.data.options("dataset")
    )
    simulation = build_simulation(config, dataset, device=choose_device(device), stopwatch=time.perf_counter)
    posed: Posed = []

    def steer(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
        posed.append((problem, stream))
        return simulation.parts.planner(problem, memory, stream)

    def watch(_state: TrainState, record: RoundRecord) -> bool:
        hooks.on_round(record)
        return not hooks.should_stop()

    train(simulation.start, replace(simulation.parts, planner=steer), simulation.settings, watch)
    return posed
