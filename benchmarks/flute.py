"""FLUTE's published job: logistic regression on MNIST, 1,000 clients, ten a round, batches of ten, 100 rounds.

Dimitriadis et al.: *FLUTE: A Scalable, Extensible Framework for High-Performance Federated Learning Simulations*,
2022, whose authors printed 3 min 20 s for FLUTE and 30 min for Flower. Used by benchmarks/methods.py (row "FLUTE").
With `flower`, the same job in Flower's own simulation, whose client is a plain PyTorch loop.

    python benchmarks/flute.py [flower] --data-dir DIR
"""

import argparse
import json
import os
import sys
import time
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "src"))

CLIENTS, PER_ROUND, BATCH, ROUNDS, RATE, SAMPLES = 1000, 10, 10, 100, 0.03, 60


def logistic(input_shape: Any, num_outputs: int) -> Any:
    """Logistic regression."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), num_outputs))


def ours() -> dict[str, float]:
    """Seconds of the whole of it, imports and the evaluation at the end with them, and the accuracy."""
    begin = time.perf_counter()
    import hpfl

    config = hpfl.load(
        "paper-mnist",
        overrides=[
            *(
                "network.edges=1",
                f"network.ues_per_edge={CLIENTS}",
                "network.backhaul=false",
                'planning.planner="full"',
            ),
            *(f"data.samples_per_ue={SAMPLES}", 'data.partitioner="iid"', f"life.sample_count={PER_ROUND}"),
            *('learning.method="fedavg"', f"learning.batch_size={BATCH}", "learning.local_epochs=1"),
            *(f"learning.outer_lr={RATE}", "evaluation.inner_lr=0.0", f"training.rounds={ROUNDS}"),
            *(f"evaluation.every={ROUNDS}", "evaluation.test_samples=10"),
        ],
    )
    result = hpfl.run(config, model=logistic, progress=False)
    return {"seconds": time.perf_counter() - begin, "accuracy": result.summary["final_global_accuracy"]}


@cache
def held(data_dir: str) -> tuple[Any, Any]:
    """Images and labels of this process in the order of the clients."""
    import gzip

    import numpy as np
    import torch

    folder = Path(data_dir) / "mnist"
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"train-{name}-ubyte.gz").read_bytes()), np.uint8, -1, skip)
        for name, skip in (("images-idx3", 16), ("labels-idx1", 8))
    )
    order = np.random.default_rng(0).permutation(len(labels))
    torch.set_num_threads(1)
    return (
        torch.from_numpy(images.reshape(-1, 784)[order].astype(np.float32) / 255),
        torch.from_numpy(labels[order].astype(np.int64)),
    )


def client_app(data_dir: str) -> Any:
    """A client that takes one epoch on its own samples."""
    from flwr.client import ClientApp, NumPyClient

    class Client(NumPyClient):
        def __init__(self, number: int) -> None:
            self.number = number

        def fit(self, parameters: Any, config: Any) -> Any:
            import torch
            from torch.nn import functional

            import flute  # by name, so that what it holds outlives this message

            x, y = flute.held(data_dir)
            model = torch.nn.Linear(784, 10)
            with torch.no_grad():
                for own, new in zip(model.parameters(), parameters, strict=True):
                    own.copy_(torch.from_numpy(new.copy()))
            optimizer = torch.optim.SGD(model.parameters(), lr=flute.RATE)
            mine = self.number * flute.SAMPLES + torch.randperm(flute.SAMPLES)
            for rows in mine.split(flute.BATCH):
                optimizer.zero_grad()
                functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
            return [p.detach().numpy() for p in model.parameters()], flute.SAMPLES, {}

    return ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client())


def server_app() -> Any:
    """Averages ten clients a round."""
    import numpy as np
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg

    def components(context: Any) -> Any:
        start = ndarrays_to_parameters([np.zeros((10, 784), np.float32), np.zeros(10, np.float32)])
        some = {"fraction_fit": PER_ROUND / CLIENTS, "min_fit_clients": PER_ROUND, "min_available_clients": CLIENTS}
        strategy = FedAvg(**some, fraction_evaluate=0.0, initial_parameters=start)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))

    return ServerApp(server_fn=components)


def flower(data_dir: str) -> dict[str, float]:
    """Seconds of the whole of it, without an evaluation."""
    begin = time.perf_counter()
    from flwr.simulation import run_simulation

    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *(p for p in sys.path if p)])  # workers import as we do
    workers = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count()}}
    run_simulation(server_app(), client_app(data_dir), num_supernodes=CLIENTS, backend_config=workers)
    return {"seconds": time.perf_counter() - begin}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", nargs="?", choices=["ours", "flower"], default="ours")
    parser.add_argument("--data-dir", default=os.environ.get("HPFL_DATA_DIR", ""))
    arguments = parser.parse_args()
    os.environ["HPFL_DATA_DIR"] = arguments.data_dir
    print(json.dumps(ours() if arguments.who == "ours" else flower(arguments.data_dir)))


if __name__ == "__main__":
    main()
