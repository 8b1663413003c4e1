"""Flower's SecAgg+ on vectors of the length that benchmarks/secure.py sums, in Flower's own simulation.

    PYTHON benchmarks/flower_secagg.py [UES] [LENGTH] [ROUNDS] [SHARES]     # PYTHON: one that has flwr[simulation]

Flower's own workflow as its example has it (`SecAggPlusWorkflow` around FedAvg, `secaggplus_mod` at clients, 3 shares
of a secret, of which 2 give it back): clients send a vector that is ready. With as many shares as UEs, everybody is
everybody's neighbour, as here, and two thirds are needed. Prints the median seconds of a round after the first, from
the first message of a round to its mean.
"""

import os
import sys
import time
from statistics import median
from typing import Any

import numpy as np


def client_app(length: int) -> Any:
    """A client that has its answer ready."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.client.mod import secaggplus_mod

    class Client(NumPyClient):
        def fit(self, parameters: Any, config: Any) -> Any:
            return [np.full(length, 1e-3, dtype=np.float32)], 1, {}

    return ClientApp(client_fn=lambda context: Client().to_client(), mods=[secaggplus_mod])


def server_app(ues: int, length: int, rounds: int, shares: int, seconds: list[float]) -> Any:
    """Averages all clients under masks, and notes how long each round took."""
    from flwr.common import ndarrays_to_parameters
    from flwr.server import LegacyContext, ServerApp, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

    class Timed(SecAggPlusWorkflow):
        def __call__(self, driver: Any, context: Any) -> None:
            began = time.perf_counter()
            super().__call__(driver, context)
            seconds.append(time.perf_counter() - began)

    app = ServerApp()

    @app.main()
    def main(driver: Any, context: Any) -> None:
        strategy = FedAvg(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=ues,
            min_available_clients=ues,
            initial_parameters=ndarrays_to_parameters([np.zeros(length, dtype=np.float32)]),
        )
        legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=rounds), strategy=strategy)
        workflow = DefaultWorkflow(
            fit_workflow=Timed(num_shares=shares, reconstruction_threshold=2 * shares // 3 + (shares > 3), max_weight=1)
        )
        workflow(driver, legacy)

    return app


def main(ues: int = 100, length: int = 79_510, rounds: int = 3, shares: int = 3) -> None:
    from flwr.simulation import run_simulation

    seconds: list[float] = []
    workers = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"address": "local", "num_cpus": os.cpu_count()},
    }
    run_simulation(
        server_app(ues, length, rounds, shares, seconds), client_app(length), num_supernodes=ues, backend_config=workers
    )
    print(median(seconds[1:]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
