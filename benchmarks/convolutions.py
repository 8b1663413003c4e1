"""How far a local step of convolutional networks is from what one core can do: ours, a plain one, and the floor.

    .venv/bin/python benchmarks/convolutions.py [--json] [--repeat 40]

Batches of 10, float32, one thread. Networks: PFLlib's 4-layer CNN on MNIST and CIFAR-10 (`methods_pfllib.py`), and
pfl-research's `simple_cnn` without dropout (`pfl_research.py`). "floor" is the sum of the library's calls that no step
can do without (convolutions and large dense products, each alone, again and again on the same numbers, so that caches
hold them); "ours" is a step of the engine for methods; "plain" one of `torch.nn` and SGD. Times are of the processor,
the tenth part from below. The first rows say what products of large matrices reach.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parent)]
# ruff: noqa: E402  after the path is set

import torch
from torch import Tensor, nn

from hpfl.learning import make_task
from hpfl.learning.batches import Batch
from hpfl.learning.own.layers import Into
from hpfl.learning.own.network import OwnNetwork
from methods_pfllib import cnn
from pfl_research import simple_cnn

BATCH, RATE = 10, 0.005
CHANNELS_LAST = torch.channels_last
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "PFLlib's CNN, MNIST": (lambda: cnn("MNIST", 0), (1, 28, 28)),
    "PFLlib's CNN, CIFAR-10": (lambda: cnn("Cifar10", 0), (3, 32, 32)),
    "pfl-research's CNN": (lambda: simple_cnn((3, 32, 32), 10), (3, 32, 32)),
}


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """Of the processor, for one call; what disturbs is left out."""
    call()
    found = []
    for _ in range(repeat):
        begin = time.thread_time()
        call()
        found.append(time.thread_time() - begin)
    return sorted(found)[len(found) // 10]


def oned(rows: Tensor, weight: Tensor) -> Tensor:
    """`rows weight^T` by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, None, "none", [], "")
    return found


def calls(module: nn.Module, shape: tuple[int, int, int]) -> list[tuple[float, Callable[[], Any]]]:
    """Operations and calls of a step that cannot be left out: layers with many weights, forward and back."""
    rows, found = torch.randn(BATCH, *shape), list[tuple[float, Callable[[], Any]]]()
    for layer in module:  # type: ignore[attr-defined]
        outputs = layer(rows)
        if isinstance(layer, nn.Conv2d):
            given = [own.contiguous(memory_format=CHANNELS_LAST) for own in (outputs, rows, layer.weight)]
            work = 2.0 * outputs.numel() * layer.weight[0].numel()
            bias = layer.bias
            found.append((work, lambda g=given, b=bias: torch.conv2d(g[1], g[2], b)))
            for wanted in ("rows", "weight") if found[1:] else ("weight",):  # nobody asks for errors at the images
                mask = [wanted == "rows", wanted == "weight", False]
                way = ((1, 1), (0, 0), (1, 1), False, [0, 0], 1, mask)
                back = torch.ops.aten.convolution_backward
                found.append((work, lambda g=given, w=way, b=back: b(*g, None, *w)))
        elif isinstance(layer, nn.Linear) and layer.weight.numel() >= 65_536:
            x, e, w = rows, outputs, layer.weight
            work = 2.0 * BATCH * w.numel()
            found += [(work, lambda x=x, w=w: oned(x, w)), (work, lambda e=e, w=w: oned(e, w.T))]
            found.append((work, lambda e=e, x=x: oned(e.T, x.T)))
        rows = outputs
    return found


def our_step(module: nn.Module, shape: tuple[int, int, int]) -> Callable[[], Any]:
    """A step of one UE's own network."""
    task = make_task(module)
    network = OwnNetwork.of(task)
    assert network is not None
    params = network.laid({name: own.clone() for name, own in task.spec.unflatten(task.flat_template()[None]).items()})
    batch = Batch(torch.randn(1, BATCH, *shape), torch.randint(10, (1, BATCH)), torch.full((1, BATCH), 1 / BATCH))
    return lambda: network.gradient(params, batch, Into(params, network.names, beta=1.0, alpha=-RATE))


def plain_step(module: nn.Module, shape: tuple[int, int, int]) -> Callable[[], Any]:
    """A step of modules and SGD."""
    inputs, targets = torch.randn(BATCH, *shape), torch.randint(10, (BATCH,))
    descent = torch.optim.SGD(module.parameters(), lr=RATE)

    def step() -> None:
        descent.zero_grad()
        with torch.enable_grad():
            nn.functional.cross_entropy(module(inputs), targets).backward()
        descent.step()

    return step


def main() -> None:
    """Rows, as a table or as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object per row")
    parser.add_argument("--repeat", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    side, turns = 1024, max(options.repeat // 4, 1)
    left, right = torch.randn(side, side), torch.randn(side, side)
    for name, product in (("torch.mm", torch.mm), ("oneDNN", oned)):
        reached = 2e-9 * side**3 / seconds(lambda p=product: p(left, right), turns)
        row = {"work": f"products of {side} x {side}, {name}", "gflop_per_s": reached}
        print(json.dumps(row) if options.json else f"{row['work']}: {reached:.0f} GFLOP/s", flush=True)
    for name, (make, shape) in NETWORKS.items():
        with torch.no_grad():
            each = calls(make(), shape)
            floor = sum(seconds(call, options.repeat) for _, call in each)
            ours = seconds(our_step(make(), shape), options.repeat)
            plain = seconds(plain_step(make(), shape), options.repeat)
        gflop = 1e-9 * sum(work for work, _ in each)
        row = {"work": name, "gflop": gflop, "floor_s": floor, "ours_s": ours, "plain_s": plain}
        told = ", ".join(f"{key} {1e3 * row[f'{key}_s']:.2f} ms" for key in ("floor", "ours", "plain"))
        rates = f"{gflop / floor:.0f}, {gflop / ours:.0f} and {gflop / plain:.0f} GFLOP/s"
        print(json.dumps(row) if options.json else f"{name}: {gflop:.3f} GFLOP; {told}: {rates}", flush=True)


if __name__ == "__main__":
    main()
