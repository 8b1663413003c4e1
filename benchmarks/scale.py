"""How far one run and many runs go on one machine: `massive`, blocks, workers of Ray, and small runs side by side.

    .venv/bin/python benchmarks/scale.py [--json] [--only NAME] [--data-dir DIR] [--limit SECONDS]

NAME: massive, cost, blocks, beside, thousand, workers, bits. A row is printed as soon as it is known; progress goes to
stderr. What wants a GPU, 16 cores or Ray is left out where there are none, and says so. Every run is in a process of
its own; a part that fails, or takes longer than `--limit`, is a row with an error, and the next one begins. `thousand`
makes as many runs as fit the limit, 160 at least. `workers` also says what as many plain processes make of a round that
they share, without Ray and without a driver: no engine can make more of the machine. DIR has MNIST, for `beside`;
without it there is the embedded part.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

import hpfl
from hpfl.config import with_overrides
from hpfl.experiment import Hooks, run_experiment
from hpfl.kept_memory import keep_freed_memory
from hpfl.learning import Cohort, LocalTraining, make_task
from hpfl.rng import Streams

GPU = torch.cuda.is_available()
CORES = len(os.sched_getaffinity(0))
RAY = find_spec("ray") is not None
ROUNDS = 7  # of which the first and the last, which evaluates, are not counted: the median is of five
THOUSAND, LEAST = 1000, 64
Row = dict[str, Any]


class Left(Exception):  # noqa: N818  it is no error
    """Why a part is left out here."""


def row(work: str, value: float, unit: str, bar: float, *, least: bool = False, **more: Any) -> Row:
    """One figure against its bar: at most that, or `least` that."""
    ok = value >= bar if least else value <= bar
    return {"work": work, "value": value, "unit": unit, "bar": bar, "ok": ok, **more}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def sha(model: dict[str, torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(own.numpy().tobytes() for own in model.values())).hexdigest()


def played(preset: str, overrides: list[str], **how: Any) -> Row:
    """A run in this process: seconds until it begins and of each round, its peak memory and its model's digest."""
    import resource

    began, times = time.perf_counter(), [time.perf_counter()]
    engine, kills, waits = how.pop("engine", None), how.pop("kill_after", 0), list[list[float]]()
    if engine is not None:
        from hpfl.clusters.spread import RaySpread

        how["spread"] = RaySpread(**engine)
        waits = waits_for_workers()

    class Began(hpfl.Watcher):
        def started(self, run: Any) -> None:
            times[0] = time.perf_counter()
            say(f"  set up in {times[0] - began:.2f} s")

    def on_round(record: Any) -> None:
        times.append(time.perf_counter())
        say(f"  round {len(times) - 1}: {times[-1] - times[-2]:.3f} s")
        if record.round == kills:
            lost = workers_of_ray()[0]
            os.kill(lost, signal.SIGKILL)
            say(f"  killed worker {lost}")

    hooks = Hooks(on_round=on_round, warn=lambda text: say(f"  {text}"))
    config = with_overrides(hpfl.preset(preset), overrides)
    result = run_experiment(config, hooks=hooks, watchers=[Began()], **how)
    return {
        "setup_s": times[0] - began,
        "round_s": np.diff(times).tolist(),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "sha": sha(result.model),
        "waits": waits,
    }


def waits_for_workers() -> list[list[float]]:
    """Will have, for each call for updates, the driver's seconds of it, then those of each worker."""
    from hpfl.clusters.team import Team

    waits, ask = list[list[float]](), Team.ask

    def asked(team: Any, what: str, calls: Any) -> Any:
        began = time.perf_counter()
        answers = ask(team, what, calls)
        if what == "updates":
            own = [answers[worker].seconds for worker in sorted(answers)]
            waits.append([time.perf_counter() - began, *own])
            say(f"  workers: {' '.join(f'{value:.3f}' for value in own)} s")
        return answers

    Team.ask = asked  # type: ignore[method-assign]
    return waits


def workers_of_ray() -> list[int]:
    """Processes of the workers of this driver that are alive."""
    from ray._private.state import actors

    return sorted(own["Pid"] for own in actors().values() if own["State"] == "ALIVE")


def apart(preset: str, overrides: list[str], *, threads: int = 0, **how: Any) -> Row:
    """The same in a process of its own; what it says on stderr is passed on."""
    say(f"{preset} {' '.join(overrides)} {how or ''}")
    began = time.perf_counter()
    found = process("played", {"preset": preset, "overrides": overrides, **how}, threads)
    return {**found, "whole_s": time.perf_counter() - began}


def process(what: str, told: Row, threads: int = 0) -> Any:
    """What a function here gives in a process of its own, which ends with all that it has started."""
    env = os.environ | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    command = [sys.executable, __file__, "--play", json.dumps({"what": what, "told": told})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True) as running:
        try:
            out, _ = running.communicate(timeout=LIMIT[0])
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    if running.returncode:
        raise RuntimeError(f"the run ended with {running.returncode}")
    return json.loads(out.splitlines()[-1])


LIMIT = [240.0]


def settled(run: Row) -> float:
    """Seconds of a round: the median of all but the first and the last."""
    return statistics.median(run["round_s"][1:-1] or run["round_s"])


def massive(_: Path | None) -> Iterator[Row]:
    """`massive`: a round of 100,000 UEs out of a million, setting up, memory."""
    rounds = ROUNDS if GPU else 5
    found = apart("massive", [f"training.rounds={rounds}", "evaluation.every=1000"], threads=0 if GPU else 2)
    where = "one GPU" if GPU else "two threads"
    yield row(f"massive, a round, {where}", settled(found), "s", 0.5 if GPU else 8.0, rounds=found["round_s"])
    imports = found["whole_s"] - found["setup_s"] - sum(found["round_s"])
    yield row(f"massive, setting up, {where}", found["setup_s"], "s", 10.0 if GPU else 20.0, beside_s=imports)
    yield row(f"massive, peak memory, {where}", found["peak_gb"], "GB", 4.0)


def cost(_: Path | None) -> Iterator[Row]:
    """What a UE costs among 10^6 participants against 10^4, on a GPU."""
    if not GPU:
        raise Left("no GPU")
    each = {}
    for edges in (10, 1000):
        over = [f"network.edges={edges}", "life.sample_fraction=1", f"training.rounds={ROUNDS}", "evaluation.ues=1000"]
        run = apart("massive", [*over, "evaluation.every=1000", f"planning.max_edges={edges}"])
        each[edges] = settled(run) / (1000 * edges)
        say(f"  {each[edges] * 1e6:.3f} microseconds a UE")
    microseconds = {f"of_{1000 * edges}_us": value * 1e6 for edges, value in each.items()}
    ratio = each[1000] / each[10]
    yield row("cost per UE, 10^6 participants against 10^4", ratio, "times", 1.05, **microseconds)


def blocks(_: Path | None) -> Iterator[Row]:
    """The updates of 65,536 UEs in blocks against those in one piece, one after the other, nine times."""
    torch.set_num_threads(2)
    sizes = np.full(65_536, 20)
    draws = torch.Generator().manual_seed(0)
    inputs, targets = torch.rand(4000, 784, generator=draws), torch.randint(0, 10, (4000,), generator=draws)
    start = np.random.default_rng(0).integers(0, 3980, len(sizes))

    class Shards:
        offsets, length = np.arange(len(sizes) + 1), sizes

    Shards.start = start
    task = make_task(lambda: torch.nn.Sequential(torch.nn.Linear(784, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)))
    training = LocalTraining(inner_lr=0.03, outer_lr=0.07)
    data = {"inputs": inputs, "targets": targets, "shards": Shards, "device": "cuda" if GPU else "cpu"}
    cohorts = [Cohort(task, training, **data, block_ues=size) for size in (16_384, 1 << 30)]
    params, ues = task.initial_parameters(Streams(0).at("model")).float(), np.arange(len(sizes))
    asked = {"ues": ues, "groups": ues // 1024, "num_groups": 64, "streams": Streams(0), "key": 1}
    seconds: list[list[float]] = [[], []]
    for number in range(9):
        for cohort, own in zip(cohorts, seconds, strict=True):
            began = time.perf_counter()
            cohort.updates(params, **asked)
            own.append(time.perf_counter() - began)
        say(f"  {number + 1}: {seconds[0][-1]:.3f} s in blocks, {seconds[1][-1]:.3f} s in one piece")
    ratios = [one / other for one, other in zip(*(own[1:] for own in seconds), strict=True)]
    yield row("blocks against no blocks, one process", statistics.median(ratios), "times", 1.03, ratios=ratios)


def swept(preset: str, rounds: int, *, runs: int, workers: int, **how: Any) -> float:
    """Seconds of a whole sweep of so many seeds, start of its workers included; one run before is not counted."""
    overrides = {"training.rounds": rounds}
    kind: Row = {"set": overrides, "outputs": [], "progress": False} | how
    with tempfile.TemporaryDirectory() as folder:
        if workers == 1:
            hpfl.sweep(preset, out=Path(folder) / "first", seeds=1, **kind)
        began = time.perf_counter()
        hpfl.sweep(preset, out=Path(folder) / "sweep", seeds=runs, workers=workers, **kind)
        took = time.perf_counter() - began
    say(f"  {runs} runs, {workers} at a time: {took:.1f} s")
    return took


def sweep_apart(preset: str, rounds: int, *, runs: int, workers: int, **how: Any) -> float:
    """The same in a process of its own."""
    told = {"preset": preset, "rounds": rounds, "runs": runs, "workers": workers, **how}
    return float(process("swept", told, threads=1))


@contextmanager
def shared_by_mps() -> Iterator[bool]:
    """Processes that are started meanwhile share a GPU by NVIDIA's Multi-Process Service, if it can be started."""
    tool = shutil.which("nvidia-cuda-mps-control")
    with tempfile.TemporaryDirectory() as folder:
        names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
        os.environ |= dict.fromkeys(names, folder)
        try:
            done = subprocess.run([tool, "-d"], check=False, timeout=30) if tool else None
            yield done is not None and not done.returncode
            if tool:
                subprocess.run([tool], input="quit\n", text=True, check=False, timeout=30)
        finally:
            for name in names:
                del os.environ[name]


def beside(data_dir: Path | None) -> Iterator[Row]:
    """Small runs on one GPU, sixteen processes at a time, against one after another; with MPS and without."""
    if not GPU:
        raise Left("no GPU")
    kind: Row = {"gpus": 1, "device": "cuda"} | ({"data_dir": str(data_dir)} if data_dir else {})
    if not data_dir:
        kind["set"] = {"training.rounds": 150, "data.dataset": "mnist-mini"}
    side = min(CORES, 16)
    alone = sweep_apart("paper-mnist", 150, runs=3, workers=1, **kind) / 3
    name = f"paper-mnist, runs a minute, {side} processes side by side"
    for mps in (False, True):
        with shared_by_mps() if mps else nullcontext(True) as there:
            if not there:
                raise Left("MPS does not start here")
            together = sweep_apart("paper-mnist", 150, runs=6 * side, workers=side, **kind) / (6 * side)
        minute = {"alone": 60 / alone, "together": 60 / together}
        how = "with MPS" if mps else "taking turns"
        yield row(f"{name}, {how}", minute["together"] / minute["alone"], "times", 8.0, least=True, **minute)


def thousand(_: Path | None) -> Iterator[Row]:
    """Of 1,000 runs of `quickstart --rounds 30` what fits the limit, in 16 workers, against 16 single ones at once."""
    if CORES < 16:
        raise Left(f"{CORES} cores, wanted 16")
    alone, single = singles(1), singles(16)
    runs = min(max(int(0.8 * LIMIT[0] / single) * 16, LEAST), THOUSAND)
    sweep = sweep_apart("quickstart", 30, runs=runs, workers=16, device="cpu")
    seconds = {"alone_s": alone, "single_s": single, "sweep_s": sweep, "runs": runs}
    yield row(f"{runs} runs of quickstart, of linear", runs / 16 * single / sweep, "share", 0.9, least=True, **seconds)


def singles(count: int) -> float:
    """Seconds of so many runs of `quickstart --rounds 30` at once, each started by itself."""
    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda _: apart("quickstart", ["training.rounds=30"], threads=1, device="cpu"), range(count)))
    return time.perf_counter() - began


class PlainTeam:
    """In place of workers of Ray: worker `number` of so many, in this process; what others would answer is left out.

    It computes updates when all processes are about to, so that they do side by side.
    """

    device = "cpu"

    def __init__(self, of: int, number: int, folder: str, threads: int) -> None:
        from hpfl.clusters.block_worker import Worker
        from hpfl.clusters.surroundings import Surroundings

        self.actors, self.number, self.folder, self.seconds = [None] * of, number, Path(folder), list[float]()
        self.worker = Worker(Surroundings.of_driver(threads), self.device)
        sys.modules["ray"] = SimpleNamespace(get=lambda refs: refs)  # nothing is sent

    def put(self, value: Any) -> Any:
        return value

    def note(self, text: str) -> None:
        say(f"  {text}")

    def ask(self, what: str, calls: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        who = self.number if self.number in calls else min(calls)  # some cohorts are too small for all
        if what == "updates":
            self._wait_for_all(len(self.seconds))
        answers = {who: getattr(self.worker, what)(*calls[who])}
        if what == "updates":
            self.seconds.append(answers[who].seconds)
        return answers

    def _wait_for_all(self, played: int) -> None:
        (self.folder / f"{played} {self.number}").touch()
        until = time.monotonic() + LIMIT[0] / 4
        while len(list(self.folder.glob(f"{played} *"))) < len(self.actors):
            if time.monotonic() > until:
                raise TimeoutError("other processes have not come so far")
            time.sleep(0.001)


def share(overrides: list[str], **team: Any) -> list[float]:
    """Seconds of each round in which this process computes what one of so many workers would."""
    from hpfl.clusters.spread_cohort import spread_cohort

    made = PlainTeam(**team)
    plain = SimpleNamespace(facts={}, cohorts=lambda note: nullcontext(partial(spread_cohort, made)))
    run_experiment(with_overrides(hpfl.preset("massive"), overrides), spread=plain, hooks=Hooks(warn=made.note))
    return made.seconds


def shares(of: int, overrides: list[str], *, threads: int) -> float:
    """Seconds of a round that so many plain processes share: the slowest one's of each, and of those the median."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(of) as pool:
        told = {"of": of, "threads": threads, "folder": folder, "overrides": overrides}
        each = list(pool.map(lambda number: process("share", told | {"number": number}, threads), range(of)))
    slowest = [max(own) for own in zip(*each, strict=True)]
    say(f"  {of} plain processes of {threads} threads: {' '.join(f'{value:.3f}' for value in slowest)} s")
    return statistics.median(slowest[1:-1])


BLOCK_UES = 15_625  # 64 blocks of a million


def workers(_: Path | None) -> Iterator[Row]:
    """`massive` on 8 workers of 2 threads against one of 2; and what as many plain processes make of such a round."""
    if CORES < 16 or not RAY:
        raise Left(f"{CORES} cores, {'Ray' if RAY else 'no Ray'}; wanted 16 and Ray")
    yield from workers_of(8, threads=2, bar=6.0)


def workers_of(most: int, *, threads: int, bar: float, ues_per_edge: int = 1000) -> Iterator[Row]:
    """The same of so many workers and threads."""
    over = ["training.rounds=5", "evaluation.every=1000", f"learning.block_ues={BLOCK_UES}"]
    over += [f"network.ues_per_edge={ues_per_edge}"]
    each = f"{most} x {threads} threads against 1 x {threads}"
    machine = {count: shares(count, over, threads=threads) for count in (1, most)}
    ratio, seconds = machine[1] / machine[most], {f"{count}_processes_s": own for count, own in machine.items()}
    yield {"work": f"such a round, plain processes, {each}", "value": ratio, "unit": "times", "ok": None, **seconds}
    found = {}
    for count in (1, most):
        found[count] = apart("massive", over, engine={"workers": count, "cpus_per_worker": threads})
    seconds = {f"{count}_workers_s": settled(run) for count, run in found.items()}
    ratio = settled(found[1]) / settled(found[most])
    yield row(f"massive, a round, workers {each}", ratio, "times", bar, least=True, **seconds)
    for count, run in found.items():
        own = settled(run) - statistics.median(max(wait[1:]) for wait in run["waits"][1:-1])
        yield {"work": f"its round beside the slowest of {count} workers", "value": own, "unit": "s", "ok": None}
    last = found[most]["waits"][1:-1]
    apart_s = statistics.median(max(wait[1:]) / statistics.fmean(wait[1:]) for wait in last)
    yield {"work": f"the slowest of {most} workers against their mean", "value": apart_s, "unit": "times", "ok": None}
    yield row(f"massive, models of 1 and {most} workers", len({run["sha"] for run in found.values()}), "models", 1)


def bits(_: Path | None) -> Iterator[Row]:
    """One model for 1, 2, 4 and 8 workers, with a worker killed, and without any; on a CPU, and on a GPU."""
    if not RAY:
        raise Left("no Ray")
    over = ["training.rounds=5", "learning.block_ues=16"]

    def models(name: str, ways: dict[str, Row]) -> Row:
        found = {way: apart("quickstart", over, threads=1, **how)["sha"] for way, how in ways.items()}
        return row(f"different models on {name}: {', '.join(ways)}", len(set(found.values())), "models", 1, sha=found)

    counts = [count for count in (1, 2, 4, 8) if count <= CORES]
    ways: dict[str, Row] = {f"{count} workers": {"engine": {"workers": count}} for count in counts}
    ways["one of 2 killed"] = {"engine": {"workers": 2}, "kill_after": 2}
    yield models("CPUs", ways | {"no workers": {"device": "cpu"}})
    if GPU:
        yield models("a GPU", {f"{n} workers": {"engine": {"workers": n, "gpus_per_worker": 1 / n}} for n in (1, 2, 4)})


PARTS = {own.__name__: own for own in (massive, cost, blocks, beside, thousand, workers, bits)}


def rows(name: str, data_dir: Path | None) -> Iterator[Row]:
    """The rows of a part, or one that says why there are none."""
    say(name)
    try:
        yield from PARTS[name](data_dir)
    except Left as why:
        yield {"work": name, "left_out": str(why), "ok": None}
    except Exception as error:  # noqa: BLE001  the next part is measured all the same
        yield {"work": name, "error": f"{type(error).__name__}: {error}", "ok": False}


def line(found: Row) -> str:
    if "value" not in found:
        return f"{found['work']:62} {found.get('left_out') or found['error']}"
    verdict = f"bar {found['bar']:g}  {'ok' if found['ok'] else 'MISSED'}" if "bar" in found else ""
    return f"{found['work']:62} {found['value']:9.3f} {found['unit']:7} {verdict}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a row of JSON for each figure")
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--limit", type=float, default=LIMIT[0], help="seconds that a run may take")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    given = parser.parse_args()
    LIMIT[0] = given.limit
    if given.play:
        keep_freed_memory()
        asked = json.loads(given.play)
        print(json.dumps({"played": played, "swept": swept, "share": share}[asked["what"]](**asked["told"])))
        return
    for name in given.only or PARTS:
        for found in rows(name, given.data_dir):
            print(json.dumps(found) if given.json else line(found), flush=True)


if __name__ == "__main__":
    main()
