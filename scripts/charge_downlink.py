"""What the free downlink hides: seconds a broadcast would take on the paper's terms, and times to 93 % with it charged.

    python scripts/charge_downlink.py

After a step the cloud sends the model to the edges that hear, one multicast over the whole band at the rate of the
worst of them; then each of these edges sends it to its UEs, one multicast per cell at the rate of the worst UE, and the
cells share the band so that they end together (P4 with one link per cell). 0.01 W each, the uplink's gains. Rounds and
seconds to 93 % are those of docs/reproduction/time-to-accuracy/runs.csv, seeds 0 to 4, edge_skew 0.
"""

import csv
from pathlib import Path

import numpy as np

from hpfl.assembly import fleet_spec, make_radio
from hpfl.config import load, resolve
from hpfl.network.latency import rate_bps
from hpfl.network.places import places_at_rest
from hpfl.network.topology import make_fleet
from hpfl.planning.bandwidth import allocate
from hpfl.planning.problem import RoundProblem
from hpfl.rng import Streams
from hpfl.units import dbm_to_w

RUNS = Path(__file__).parents[1] / "docs" / "reproduction" / "time-to-accuracy" / "runs.csv"
MODEL_BITS = 79_510 * 32.0
POWER_W = 0.01
HEARD = {"all": 20, "one of 20": 1, "15 of 20": 15}
PLANNERS = (
    ("fastest", "auto"),
    ("fastest", "scheduled"),
    ("random-1", "all"),
    ("random-1", "scheduled"),
    ("paper", "scheduled"),
    ("paper", "all"),
    ("full", "all"),
)


def gains(seed: int, round_number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gains of all UEs' links and backhauls as a run of paper-mnist draws them, and each UE's edge."""
    config, streams = resolve(load("paper-mnist", overrides=[f"training.seed={seed}"])), Streams(seed)
    fleet = make_fleet(fleet_spec(config), np.ones(config.network.num_ues, dtype=np.int64), streams)
    drawn = make_radio(config).channel.gains(round_number, places_at_rest(fleet, streams), streams)
    return drawn.ue, drawn.edge, fleet.edge_of_ue


def broadcast_s(seed: int, round_number: int, hearers: np.ndarray) -> float:
    """Seconds until every UE of the edges that hear has the model."""
    network = resolve(load("paper-mnist")).network
    noise, band_hz = dbm_to_w(network.noise_dbm_per_hz), network.bandwidth_hz
    ue_gain, edge_gain, edge_of_ue = gains(seed, round_number)
    cloud_s = MODEL_BITS / rate_bps(np.array([band_hz]), POWER_W * edge_gain[hearers].min(keepdims=True) / noise)[0]
    worst = np.array([ue_gain[edge_of_ue == edge].min() for edge in np.flatnonzero(hearers)])
    count = worst.size
    cells = RoundProblem(
        bandwidth_hz=band_hz,
        rho=0.0,
        phi=0.0,
        max_edges=count,
        staleness_bound=1,
        edge_gain=np.ones(count),
        edge_power_w=np.ones(count),
        edge_noise_w_per_hz=np.ones(count),
        edge_bits=np.zeros(count),
        importance=np.zeros(count),
        staleness=np.zeros(count, dtype=np.int64),
        edge_of_ue=np.arange(count),
        ue_gain=worst,
        ue_power_w=np.full(count, POWER_W),
        ue_noise_w_per_hz=np.full(count, noise),
        ue_bits=np.full(count, MODEL_BITS),
        compute_s=np.zeros(count),
    )
    return float(cloud_s + allocate(cells, np.ones(count, dtype=np.bool_)).round_latency_s)


def mean_broadcast_s(count: int, *, rounds: int = 20) -> float:
    """Mean over seeds 0 to 4 and their first rounds, of `count` edges drawn at random."""
    found = []
    for seed in range(5):
        for number in range(rounds):
            hearers = np.zeros(20, dtype=np.bool_)
            hearers[Streams(seed).at("hearers", number).permutation(20)[:count]] = True
            found.append(broadcast_s(seed, number, hearers))
    return float(np.mean(found))


def main() -> None:
    """Print both tables."""
    seconds = {name: mean_broadcast_s(count) for name, count in HEARD.items()}
    for name, mean_s in seconds.items():
        print(f"a broadcast to {name}: {mean_s:.2f} s on average")
    with RUNS.open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["data"], row["clock"], row["edge_skew"], row["target"]) == ("mnist", "round", "0", "0.93")
        ]
    for planner, broadcast in PLANNERS:
        here = [row for row in rows if (row["planner"], row["broadcast"]) == (planner, broadcast)]
        count = 20 if broadcast != "scheduled" else round(np.mean([float(row["mean_edges"]) for row in here]))
        each_s = mean_broadcast_s(count)
        free = np.array([float(row["time_s"]) for row in here])
        charged = free + each_s * np.array([float(row["rounds"]) for row in here])
        means = (float(np.exp(np.log(times).mean())) for times in (free, charged))
        print(f"{planner}, {broadcast}: %.1f s free, %.1f s charged, {count} edges hear" % tuple(means))


if __name__ == "__main__":
    main()
