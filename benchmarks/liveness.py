"""What one child of nine that holds others up costs: seconds a round with it over those of honest rounds.

`python benchmarks/liveness.py`: a cloud, 3 edges and 9 UEs in one process on loopback, no training; one child is mute,
withholds or trickles its update, answers ever later, or is an edge without UEs. The first three rounds are not counted.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "deployment"))

from hpfl.deployment.environment import prepare

prepare()  # before anything imports grpc

from deployment_nodes import Certificates, Nodes  # noqa: E402
from laggards import with_laggard  # noqa: E402

NINE = ("training.rounds=100000", "network.edges=3", "network.ues_per_edge=3", "planning.max_edges=3")
FIRST, ROUNDS = 3, 200
LAGGARDS = {"mute": {}, "withholds": {}, "trickles": {}, "drags": {"delay_s": 0.5}, "dead": {}}


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


def main(rounds: int = ROUNDS) -> None:
    """A table: the laggard, its first three rounds, milliseconds of a later round, and that over an honest one."""
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(Path(folder))
        for how in LAGGARDS:
            _, honest_s = seconds_with(certificates, "honest", rounds)  # each time anew: the machine has other work
            first_s, each_s = seconds_with(certificates, how, rounds)
            times = f"then {1e3 * each_s:7.1f} ms, honest {1e3 * honest_s:7.1f} ms   {each_s / honest_s:5.2f} x"
            print(f"{how:10s} first {first_s:6.2f} s   {times}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
