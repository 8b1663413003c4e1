"""What virtual time costs: one round of a preset without learning, the growth with the number of UEs, and memory.

python benchmarks/simulator.py            a table with the bar beside each figure
python benchmarks/simulator.py --json     one JSON object per row: work, value, unit, bar, ok
python benchmarks/simulator.py --quick    without the massive run with learning
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace

THREADS = 2
ROUNDS = 5


def row(work, value, unit, bar):
    return {"work": work, "value": round(value, 4), "unit": unit, "bar": bar, "ok": bool(value <= bar)}


class NoLearning:
    """Stands in for the learners: every edge keeps the update it has."""

    def renewed(self, pending, edges, params, **who):
        del edges, params, who
        return pending

    def without_lost(self, pending, edges, memory, **who):
        del edges, memory, who
        return pending

    def edge_weights(self, members, edge_of, num_edges):
        import numpy as np

        del members, edge_of
        return np.ones(num_edges)


def seconds_per_round(config, *, with_planning):
    """The best of a few rounds, with records and timeline written to memory as a run writes them to files."""
    import torch

    from hpfl.data.sources import load_dataset
    from hpfl.simulation.simulated_run import build_simulation
    from hpfl.training.loop import play_round

    dataset = load_dataset(config.data.dataset, os.environ.get("HPFL_DATA_DIR"))
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=time.perf_counter)
    executor = replace(simulation.parts.executor, learners=NoLearning())
    parts = replace(simulation.parts, executor=executor, evaluate=lambda state: None)
    state, best = simulation.start, float("inf")
    for _ in range(ROUNDS if config.network.num_ues > 10**5 else 10 * ROUNDS):
        began = time.perf_counter()
        state, record = play_round(state, parts, simulation.settings)
        json.dumps(record.to_json())
        "".join(json.dumps(line) + "\n" for line in record.phases.rows())
        took = time.perf_counter() - began
        best = min(best, took if with_planning else took - record.planning_s)
    return best


def paper_round():
    from hpfl.config import load

    config = load(
        "paper-mnist", overrides=["data.dataset=mnist-mini", "data.disjoint=false", "planning.planner=random"]
    )
    return row(
        "paper-mnist, a round without learning and planning",
        1e3 * seconds_per_round(config, with_planning=False),
        "ms",
        5.0,
    )


def massive_round():
    from hpfl.config import load

    config = load("massive", overrides=["learning.model=mlp"])
    return row(
        "massive, a round with planning, without learning", seconds_per_round(config, with_planning=True), "s", 2.0
    )


def growth():
    """Seconds per round and UE at 10^6 UEs over those at 10^3: at most 1 where cost grows no faster than the UEs."""
    from hpfl.config import load

    costs = {}
    for edges in (10, 100, 1000):
        for ues in (100, 1000):
            count = edges * ues
            if count in (10**3, 10**4, 10**5, 10**6) and count not in costs:
                config = load(
                    "massive", overrides=[f"network.edges={edges}", f"network.ues_per_edge={ues}", "evaluation.ues=100"]
                )
                costs[count] = seconds_per_round(config, with_planning=True)
    for count, cost in costs.items():
        yield row(f"{count:,} UEs, a round with planning, without learning", cost, "s", 2.0)
    yield row("cost per UE at 1,000,000 over that at 1,000", costs[10**6] / costs[10**3] / 1000, "", 1.0)


def massive_memory():
    """Peak memory of a process that plays two rounds of `massive`, learning and evaluation included."""
    code = (
        "import json, resource, time, hpfl\n"
        "config = hpfl.load('massive', overrides=['training.rounds=2', 'evaluation.every=2'])\n"
        "began = time.perf_counter()\n"
        "hpfl.run(config)\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9\n"
        "print(json.dumps([peak, (time.perf_counter() - began) / 2]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    peak, seconds = json.loads(done.stdout.strip().splitlines()[-1])
    yield row("massive with learning, peak memory", peak, "GB", 8.0)
    yield row("massive with learning, a round", seconds, "s", float("inf"))


def rows(quick):
    yield paper_round()
    yield massive_round()
    yield from growth()
    if not quick:
        yield from massive_memory()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(THREADS)
    for found in rows(options.quick):
        if options.json:
            print(json.dumps(found | {"bar": found["bar"] if found["bar"] != float("inf") else None}), flush=True)
        else:
            bar = f"at most {found['bar']:g}" if found["bar"] != float("inf") else "no bar"
            verdict = "ok" if found["ok"] else "MISSED"
            print(
                f"{found['work']:62s} {found['value']:10.4g} {found['unit']:3s} {bar:12s} {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
