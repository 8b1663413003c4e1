"""How much a band that is shared anew in each phase saves, and how far that is from any bandwidth over time.

    .venv/bin/python benchmarks/spectrum.py [--networks N]

Networks are those of `benchmarks/planner.py`, all edges scheduled, with computing as named. Columns: seconds of a round
with constant Hz over those with one switch; with one switch over those with switches of the edges' own; and both over
the bound for any bandwidth over time (`planning/any_time.py`), mean and worst of all networks.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hpfl.planning.any_time import any_time_least_s
from hpfl.planning.bandwidth import allocate
from hpfl.planning.own_switches import with_own_switches
from hpfl.planning.problem import RoundProblem
from hpfl.rng import Streams
from planner import everybody, network

Computing = Callable[[int, int, int], np.ndarray]

COMPUTING: dict[str, Computing] = {
    "none": lambda seed, K, ues: np.zeros(K * ues),
    "MNIST, 2 GHz": lambda seed, K, ues: network(seed, K, ues).compute_s,
    "one edge, 0.5 s": lambda seed, K, ues: np.where(np.arange(K * ues) < ues, 0.5, 0.0),
    "one edge, 2 s": lambda seed, K, ues: np.where(np.arange(K * ues) < ues, 2.0, 0.0),
    "edges, log-normal": lambda seed, K, ues: np.repeat(0.5 * np.exp(Streams(seed).at("compute").normal(K)), ues),
    "UEs, log-normal": lambda seed, K, ues: 0.3 * np.exp(Streams(seed).at("compute").normal(K * ues)),
}


def measured(problem: RoundProblem) -> tuple[float, float, float, float]:
    """Constant Hz over one switch, one switch over own switches, and those two over the bound."""
    phased, everyone = replace(problem, spectrum="phased"), everybody(problem)
    one = allocate(phased, everyone)
    own = with_own_switches(phased, one)
    fixed_s, one_s, own_s = allocate(problem, everyone).round_latency_s, one.round_latency_s, own.round_latency_s
    bound_s = any_time_least_s(phased, everyone, one_s)
    return fixed_s / one_s, one_s / own_s, one_s / bound_s, own_s / bound_s


def main() -> None:
    parser = argparse.ArgumentParser(description="What phases save, and how far from the best of all they are.")
    parser.add_argument("--networks", type=int, default=40)
    options = parser.parse_args()
    print(f"{'computing':<18} {'edges':>5}  constant/one   one/own   one/any time   own/any time   (mean, worst)")
    for name, computing in COMPUTING.items():
        for K, ues in ((1, 10), (2, 10), (6, 10), (20, 10)):
            drawn = [(seed, replace(network(seed, K, ues), bandwidth_hz=5e6)) for seed in range(options.networks)]
            found = np.array([measured(replace(one, compute_s=computing(seed, K, ues))) for seed, one in drawn])
            cells = (
                f"{mean:.3f} {worst:.3f}" for mean, worst in zip(found.mean(axis=0), found.max(axis=0), strict=True)
            )
            print(f"{name:<18} {K:>5}  " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
