"""What secure sums cost a deployed round: the same cell with and without, in one run, in turn.

    .venv/bin/python benchmarks/secure.py [--json] [--rounds 6] [--blocks 3] [--training 4] [--flower PYTHON]

One edge, 100 UEs with certificates, connections and streams of their own, 80k parameters, real processes on loopback.
Blocks of rounds of the arrangements follow each other, each after the others have come to rest.

UEs train for `--training` seconds as if each did on a processor of its own: they wait. What of a secure sum does not
depend on the update (keys, shares, that all know the same members, all masks, draws that round) they do meanwhile, as
they can where they train; it takes some 1.4 s here, for all UEs share the cores of this machine. Told are the seconds
of a round beyond those of training, from one model to the next.

plain      seconds of a round beyond training, without secure sums
secure     the same with secure sums                                                   bar: 2 times plain
dropped    the same where 30 of 100 UEs, others each time, are cut off in every second round, before all steps of a
           session, know nothing of it any more, and are back some 1.5 s later, in the next round or too late for this
           session; those rounds alone                                                 bar: 2 times plain
cut        plain where the same UEs are cut off in the same rounds, at moments like those: while they train, before
           and after their sketch, before and after their update; for comparison with `dropped`
busy       plain and secure where nobody trains: there is no time to prepare in, and a round has all keystreams of all
           UEs in it, one after the other on the cores of this machine                 no bar
flower     seconds of a round of Flower's SecAgg+ workflow on vectors of the same length, in its own simulation, with 3
           neighbours a client (`benchmarks/flower_secagg.py`), by the python of an environment that has flwr 1.42

Processor time tells what a machine of its own would spend: of the edge, and of one UE, in a round and what follows it
until the next is prepared.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

import deployment as plain  # first, for what it sets before numpy and grpc are imported
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.deployed_run import build_deployment
from hpfl.deployment.local import LocalOptions, lay_out, small_network
from hpfl.deployment.logs import log_to
from hpfl.deployment.node import SharedWork
from hpfl.deployment.processes import run_edge
from hpfl.deployment.secure_member import SecureMember
from hpfl.deployment.secure_wire import SKETCH, STEPS, UPDATE
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, UeNodeSettings, read_settings
from hpfl.deployment.ue import Ue
from hpfl.training.loop import train

FIXED = ["planning.planner=full", "evaluation.every=1000000", "training.rounds=1000000"]
SECURE = ["secure.aggregation=cell"]
PROCESSES = max(2, (os.cpu_count() or 2) - 2)
_AWAY_S = 1.5
"""After so long (half to one and a half times) a UE that was cut off is back, and in this round no more."""
_TRAINING, _AFTER_S = [(pb.KEYS, ""), (pb.SHARES, ""), (pb.VOTES, "")], 0.2
"""Steps while UEs train, and after how long these come, one after the other."""
_SENT_S = 0.03
"""After so long what was to be sent has arrived."""
CUT_BEFORE = [step for step in STEPS if step != (pb.MASKED, UPDATE)]  # that one travels as a vector
CUT = {"cut", "dropped"}
ROWS = (
    ("plain", "a round beyond training, without secure sums", "s", None),
    ("secure", "the same with secure sums", "s", None),
    ("cut", "without secure sums, 30 of 100 UEs cut off in it", "s", None),
    ("dropped", "with secure sums, 30 of 100 UEs cut off in it", "s", None),
    ("secure_ratio", "secure over plain", "", 2.0),
    ("dropped_ratio", "30 of 100 cut off, over plain", "", 2.0),
    ("like_ratio", "30 of 100 cut off, over plain with the same cut off", "", None),
    ("plain_busy", "a round where nobody trains, without", "s", None),
    ("secure_busy", "the same with secure sums", "s", None),
    ("plain_edge_cpu", "the edge's processor time in a round without", "s", None),
    ("secure_edge_cpu", "the edge's processor time in a round with", "s", None),
    ("plain_ue_cpu", "a UE's processor time in a round without", "s", None),
    ("secure_ue_cpu", "a UE's processor time in a round with", "s", None),
    ("flower", "Flower's SecAgg+ in its simulation", "s", None),
)


class Cell:
    """A cloud in this process, one edge and its UEs in others."""

    def __init__(self, folder: Path, ues: int, changes: list[str], dropped: int = 0, training_s: float = 0.0) -> None:
        self.loop = LoopThread()
        self.loop.__enter__()
        config = small_network("quickstart-paper", edges=1, ues_per_edge=ues, overrides=[*FIXED, *changes])
        nodes = lay_out(
            folder, config, LocalOptions(paced=False, timing={**plain.FLAT_OUT, "gather_s": 30.0, "retry_s": _AWAY_S})
        )
        cloud_file, edge_file = (node.file for node in nodes if node.role != "ue")
        ue_files = [str(node.file) for node in nodes if node.role == "ue"]
        settings = read_settings(CloudNodeSettings, cloud_file)
        self.ues = ues
        self.deployment = build_deployment(settings, SharedWork(settings), self.loop, run="benchmark")
        self.deployment.executor.prepare(self.deployment.start)
        self.loop.run(self.deployment.cloud.start())
        self.state = self.deployment.start
        self._helpers = [started("--edge", str(edge_file))]
        self._helpers += [
            started("--swarm", str(dropped), str(training_s), *ue_files[at::PROCESSES]) for at in range(PROCESSES)
        ]

    def play(self, rounds: int) -> list[tuple[int, int, float]]:
        """Rounds in a row: number, UEs that took part and seconds of each but the first, which was prepared before."""
        ticks, there = [time.perf_counter()], list[tuple[int, int]]()

        def watch(state: Any, record: Any) -> bool:
            ticks.append(time.perf_counter())
            there.append((record.round, record.num_participants))
            return len(there) <= rounds

        self.state = train(self.state, self.deployment.parts, self.deployment.settings, watch)
        took = [after - before for before, after in itertools.pairwise(ticks)]
        return [(*one, seconds) for one, seconds in zip(there, took, strict=True)][1:]

    def processor_s(self) -> np.ndarray:
        """Seconds of processor so far: of the edge, and of all UEs."""
        each = [used_s(helper.pid) for helper in self._helpers]
        return np.array([each[0], sum(each[1:])])

    def rest(self) -> None:
        """Wait until the next round is prepared, and nobody computes any more; not for ever after a lost one."""
        time.sleep(0.5)
        with suppress(TimeoutError):
            plain.until(lambda: bool(self.deployment.cloud.held), 10.0)
        time.sleep(0.5)

    def close(self) -> None:
        self.loop.run(self.deployment.cloud.stop(completed=True))
        for helper in self._helpers:
            plain.finish(helper)
        self.loop.__exit__()


class CutOff(SecureMember):
    """A UE whose stream is cut before a step of a session in every second round, of some UEs others each time."""

    share = 0.0
    cut_in = -1

    def is_due(self, session: Any, kind: int, of: str) -> bool:
        round_number = session.tag.base_round
        due = cut_before(self._number, round_number, len(self._slots), self.share)
        return round_number != self.cut_in and (kind, of) == due

    async def _say(self, session: Any, kind: int, entries: Any, *, of: str = "") -> None:
        if self.is_due(session, kind, of) and self._link.stream is not None:
            self.cut_in = session.tag.base_round
            self._link.stream.end()
            self.end_session()  # as a process that was killed, which knows nothing of it when it is back
            await asyncio.sleep(3600.0)
        await super()._say(session, kind, entries, of=of)


def cuts(base_round: int) -> bool:
    """Whether UEs are cut off while they work on the model after so many rounds."""
    return base_round % 2 == 1


def cut_before(number: int, base_round: int, slots: int, share: float) -> tuple[int, str] | None:
    """The step before which a UE is cut off while it works on a model; None: it is not."""
    few = int(slots * share)
    chosen = (number + few * (base_round // 2)) % slots < few
    return CUT_BEFORE[number % len(CUT_BEFORE)] if chosen and cuts(base_round) else None


class Training(Ue):
    """A UE that trains for so long on a processor of its own: it waits. Without secure sums it cuts itself off."""

    training_s = 0.0

    async def sketched(self, tag: Any, vector: Any) -> Any:
        step = self._step(tag)
        if step in _TRAINING:
            self._cut(_AFTER_S * (1 + _TRAINING.index(step)))
        await asyncio.sleep(self.training_s)
        if step == (pb.MASKED, SKETCH):
            self._cut(0.0)
        if step == (pb.VOTES, SKETCH):
            self._cut(_SENT_S)
        return await super().sketched(tag, vector)

    async def upload(self, tag: Any, order: Any) -> Any:
        step = self._step(tag)
        if step == (pb.REVEALED, SKETCH):
            self._cut(0.0)
        if step in {(pb.VOTES, UPDATE), (pb.REVEALED, UPDATE)}:
            self._cut(_SENT_S)
        return await super().upload(tag, order)

    def _step(self, tag: Any) -> tuple[int, str] | None:
        if self._secure is not None:
            return None
        return cut_before(self._settings.number, tag.base_round, self._experiment.config.network.num_ues, CutOff.share)

    def _cut(self, after_s: float) -> None:
        def cut() -> None:
            if self.up.link.stream is not None:
                self.up.link.stream.end()

        asyncio.get_running_loop().call_later(after_s, cut)


async def swarm(dropped: float, training_s: float, files: list[str]) -> None:
    """Many UEs in one process."""
    from hpfl.deployment import attaching
    from hpfl.deployment import ue as ue_module

    attaching._FIRST_RETRY_S = attaching._QUICK_RETRY_S = _AWAY_S
    CutOff.share, Training.training_s = dropped / 100.0, training_s
    ue_module.SecureMember = CutOff  # type: ignore[misc]
    settings = [read_settings(UeNodeSettings, Path(file)) for file in files]
    experiment = SharedWork(settings[0])
    prepared: Any = plain.Prepared(experiment)
    ues: list[Any] = [Training(one, experiment, prepared) for one in settings]
    for one in ues:
        one._thread = plain.AtOnce()
    await asyncio.gather(*(one.run() for one in ues))


def used_s(pid: int) -> float:
    """Seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measured(options: argparse.Namespace) -> dict[str, float]:
    """Median seconds of rounds of all three arrangements, and of Flower's."""
    training_s = options.training
    kinds = {
        "plain": ([], 0, training_s),
        "secure": (SECURE, 0, training_s),
        "cut": ([], 30, training_s),
        "dropped": (SECURE, 30, training_s),
        "plain_busy": ([], 0, 0.0),
        "secure_busy": (SECURE, 0, 0.0),
    }
    chosen = options.only or list(kinds)
    found: dict[str, list[float]] = {name: [] for name in chosen}
    used = {name: np.zeros(2) for name in chosen}
    with tempfile.TemporaryDirectory() as folder:
        cells = {name: Cell(Path(folder) / name, options.ues, *kinds[name]) for name in chosen}
        try:
            time.sleep(30.0)  # from then on nobody waits for who is not there
            for name, cell in cells.items():
                print(name, "begins", cell.play(2), file=sys.stderr)
                cell.rest()
            for _ in range(options.blocks):
                for name, cell in cells.items():
                    before, rounds = cell.processor_s(), cell.play(options.rounds)
                    cell.rest()
                    used[name] += (cell.processor_s() - before) / (options.rounds + 1)
                    found[name] += [seconds for number, there, seconds in rounds if cuts(number - 1) or name not in CUT]
                    print(name, [(there, round(seconds, 2)) for _, there, seconds in rounds], file=sys.stderr)
        finally:
            for cell in cells.values():
                cell.close()
    result = {name: statistics.median(few) - kinds[name][2] for name, few in found.items() if few}
    for name in {"plain", "secure"} & cells.keys():
        edge_s, ues_s = (used[name] / options.blocks).tolist()
        result |= {f"{name}_edge_cpu": edge_s, f"{name}_ue_cpu": ues_s / options.ues}
    if "plain" in result:
        result |= {f"{name}_ratio": result[name] / result["plain"] for name in ("secure", "dropped") if name in result}
    if {"cut", "dropped"} <= result.keys():
        result["like_ratio"] = result["dropped"] / result["cut"]
    if options.flower:
        script = Path(__file__).with_name("flower_secagg.py")
        said = subprocess.run(
            [options.flower, str(script), str(options.ues)], capture_output=True, text=True, check=True
        )
        result["flower"] = float(said.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ues", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=["plain", "secure", "cut", "dropped", "plain_busy", "secure_busy"])
    parser.add_argument("--training", type=float, default=4.0, help="seconds that UEs train, which are taken off again")
    parser.add_argument("--flower", help="python of an environment with flwr[simulation] 1.42")
    parser.add_argument("--swarm", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--edge", help=argparse.SUPPRESS)
    options = parser.parse_args()
    gc.freeze()  # as the command of a node does: no search for garbage looks at modules
    if options.swarm:
        log_to("swarm", level="error")
        dropped, training_s, *files = options.swarm
        asyncio.run(swarm(float(dropped), float(training_s), files))
    elif options.edge:
        log_to("edge", level=os.environ.get("HPFL_LOG", "error"))
        asyncio.run(run_edge(read_settings(EdgeNodeSettings, Path(options.edge))))
    else:
        log_to("cloud", level="error")
        report(measured(options), as_json=options.json)


def report(found: dict[str, float], *, as_json: bool) -> None:
    rows = [
        {"work": work, "value": found[name], "unit": unit, "bar": bar, "ok": bar is None or found[name] <= bar}
        for name, work, unit, bar in ROWS
        if name in found
    ]
    for row in rows:
        if as_json:
            print(json.dumps(row))
            continue
        bar = "" if row["bar"] is None else f"   bar {row['bar']:g}{'' if row['ok'] else '   MISSED'}"
        print(f"{row['work']:<50} {row['value']:8.3f} {row['unit']:<2}{bar}")


if __name__ == "__main__":
    main()
