"""What one child of nine that holds others up costs: seconds a round with it over those of honest rounds.

    .venv/bin/python benchmarks/liveness.py [--rounds 200] [--only mute flaps ...] [--json]

A cloud, 3 edges and 9 UEs in one process on loopback, no training. One child is mute, withholds or trickles its update,
answers late, leaves instead of its sketch (flaps) or of its update (flees) and is back at once, sends junk instead of a
sketch, declines what it has announced, is an edge without UEs, or one that says again and again that UEs have come
(renews). The first three rounds are not counted.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "deployment"))

from hpfl.deployment.environment import prepare

prepare()  # before anything imports grpc

from deployment_nodes import Certificates, Nodes  # noqa: E402
from laggards import with_laggard  # noqa: E402

NINE = ("training.rounds=100000", "network.edges=3", "network.ues_per_edge=3", "planning.max_edges=3")
FIRST, ROUNDS, BAR = 3, 200, 1.5
COMES_AND_GOES = {"delay_s": 0.05}
LAGGARDS = {
    "mute": {},
    "withholds": {},
    "trickles": {},
    "drags": {"delay_s": 0.5},
    "flaps": COMES_AND_GOES,
    "flees": COMES_AND_GOES,
    "junk": {},
    "declines": {},
    "dead": {},
    "renews": {},
}


def seconds_with(certificates: Certificates, how: str, rounds: int) -> tuple[float, float]:
    """Seconds of the first rounds, and of each later one, with one laggard."""
    with Nodes(certificates, *NINE, tiny=True, timing={"gather_s": 1.0}) as nodes:
        laggard = with_laggard(nodes, how, **LAGGARDS.get(how, {}))
        began = time.perf_counter()
        nodes.play(FIRST)
        first = time.perf_counter()
        nodes.play(rounds)
        done = time.perf_counter()
        if laggard is not None:
            laggard.stop()
    return first - began, (done - first) / rounds


def rows(rounds: int, laggards: list[str]) -> Iterator[dict[str, Any]]:
    """One row for each laggard: a later round of it over an honest one, measured just before."""
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(Path(folder))
        for how in laggards:
            _, honest_s = seconds_with(certificates, "honest", rounds)
            first_s, each_s = seconds_with(certificates, how, rounds)
            ratio = each_s / honest_s
            row = {"work": f"one child of nine: {how}", "value": ratio, "unit": "x", "bar": BAR, "ok": ratio <= BAR}
            yield {**row, "first_s": first_s, "round_ms": 1e3 * each_s, "honest_ms": 1e3 * honest_s}


def main() -> None:
    """A table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="+", choices=list(LAGGARDS), default=list(LAGGARDS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for row in rows(options.rounds, options.only):
        times = f"first {row['first_s']:6.2f} s, then {row['round_ms']:7.1f} ms, honest {row['honest_ms']:7.1f} ms"
        verdict = f"{row['value']:5.2f} x   bar {BAR} x, {'met' if row['ok'] else 'MISSED'}"
        print(json.dumps(row) if options.json else f"{row['work']:30s} {times}   {verdict}", flush=True)


if __name__ == "__main__":
    main()
