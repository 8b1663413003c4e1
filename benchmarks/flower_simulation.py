"""Job J1 in Flower's own simulation: a plain Per-FedAvg client in worker processes, a strategy that averages.

Used by benchmarks/learning.py (rows "flower simulation"). Each worker process arranges the data once and keeps them.
"""

import os
import sys
import time
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)


@cache
def held_job(data_dir: str | None) -> tuple[Any, Any]:
    """The job and its hand-written step, once per process."""
    import learning

    torch.set_num_threads(1)
    training = learning.LocalTraining(inner_lr=0.03, outer_lr=0.07)
    job = learning.two_label_job(np.full(learning.UES, 300), training, data_dir)
    return job, learning.hand_step(job)


def client_app(data_dir: str | None) -> Any:
    """A client that takes one meta step on its own shard."""
    from flwr.client import ClientApp, NumPyClient

    class Client(NumPyClient):
        def __init__(self, ue: int) -> None:
            self.ue = ue

        def fit(self, parameters: Any, config: Any) -> Any:
            import flower_simulation  # by name, so that what it holds outlives this message

            job, step = flower_simulation.held_job(data_dir)
            weights = [torch.from_numpy(w.copy()).requires_grad_() for w in parameters]
            gradient = step(weights, self.ue)
            moved = [(w.detach() - job.training.outer_lr * g).numpy() for w, g in zip(weights, gradient, strict=True)]
            return moved, int(job.sizes[self.ue]), {}

    return ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client())


def server_app(rounds: int, seconds: list[float], data_dir: str | None) -> Any:
    """Averages all clients and notes how long each round took, from the messages out to the mean."""
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg

    class Timed(FedAvg):
        def configure_fit(self, *given: Any, **named: Any) -> Any:
            seconds.append(-time.perf_counter())
            return super().configure_fit(*given, **named)

        def aggregate_fit(self, *given: Any, **named: Any) -> Any:
            result = super().aggregate_fit(*given, **named)
            seconds[-1] += time.perf_counter()
            return result

    def components(context: Any) -> Any:
        job, _ = held_job(data_dir)
        start = ndarrays_to_parameters([w.numpy() for w in job.task.spec.unflatten(job.start()).values()])
        all_of_them = {"min_fit_clients": len(job.sizes), "min_available_clients": len(job.sizes)}
        strategy = Timed(fraction_fit=1.0, fraction_evaluate=0.0, initial_parameters=start, **all_of_them)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    return ServerApp(server_fn=components)


def round_seconds(repeat: int, data_dir: str | None) -> float:
    """Median seconds of a round, after one in which the workers arrange their data."""
    from flwr.simulation import run_simulation

    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *(p for p in sys.path if p)])  # workers import as we do
    seconds: list[float] = []
    workers = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count()}}
    run_simulation(
        server_app(repeat + 1, seconds, data_dir), client_app(data_dir), num_supernodes=200, backend_config=workers
    )
    return median(seconds[1:])


if __name__ == "__main__":
    print(f"{round_seconds(3, os.environ.get('HPFL_DATA_DIR')):.3f} s per round")
