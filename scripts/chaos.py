"""Play a deployment of real processes through strikes, faults of its links and clock jumps, and say how it lived.

    python scripts/chaos.py --minutes 30 [--planner fastest] [--seed 0] [--edges 3] [--ues-per-edge 3] [--every 10]
    python scripts/chaos.py --minutes 3 --planner fastest --kill-cloud 10 25

Everybody is a process of its own on this machine, and a TCP proxy stands between every child and its parent. About
every `--every` seconds something happens: a node (or every one) is killed, frozen or asked to end; links are cut, held
up, slowed down or spoiled; a clock jumps by up to 30 days (where there is a C compiler). Whoever dies is started again.
With `--kill-cloud LEAST MOST` nothing happens but that the cloud is killed, so many seconds after each start.

Reported in one table, or with `--json` as rows of work, value, unit, bar and ok: rounds, how many of the gaps between
strikes (or lives of the cloud) saw a round, seconds from a cloud's start to its next round (bars: 6 s, and 15 s where
everybody died; no bar where an earlier strike went on meanwhile), strikes by kind, lines of level error or with a
traceback, and whether the audit recomputes every round. The exit status is 1 where a bar is missed, and 130
after Ctrl-C, which ends all processes first. A temporary folder is removed where nothing was wrong.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import tomlkit

from hpfl.config import load
from hpfl.deployment.local import LocalOptions, Supervisor, free_ports, lay_out

RESTART_BAR_S, ALL_DIED_BAR_S = 6.0, 15.0
TELL_S = 60.0
TIMING = {"retry_s": 1.0}
NODE_STRIKES = ("kill", "kill", "kill", "freeze", "terminate", "clock")
LINK_FAULTS = ("cut", "hold", "slow", "spoil")
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) {
  const char *path = getenv("CHAOS_CLOCK"); long s = 0; FILE *f = path ? fopen(path, "r") : 0;
  if (f) { if (fscanf(f, "%ld", &s) != 1) s = 0; fclose(f); }
  return s;
}
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int rc = real(id, t);
  if (!rc && id == CLOCK_REALTIME) t->tv_sec += shift();
  return rc;
}
time_t time(time_t *out) {
  struct timespec t; clock_gettime(CLOCK_REALTIME, &t); if (out) *out = t.tv_sec; return t.tv_sec;
}
int gettimeofday(struct timeval *tv, void *zone) {
  struct timespec t; clock_gettime(CLOCK_REALTIME, &t); tv->tv_sec = t.tv_sec; tv->tv_usec = t.tv_nsec / 1000; return 0;
}
"""


class Links:
    """One proxy for each parent, and what is the matter with it just now."""

    def __init__(self, targets):
        self.fault, self._writers = {}, {name: set() for name in targets}
        self.ports = dict(zip(targets, free_ports(len(targets)), strict=True))
        self._targets = targets
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        for name in targets:
            asyncio.run_coroutine_threadsafe(self._listen(name), self._loop).result(5)

    def strike(self, name, fault):
        """Let a fault befall all links of a parent; None mends them."""
        self.fault[name] = fault
        if fault == "cut":
            self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self._writers[name]])

    async def _listen(self, name):
        async def serve(reader, writer):
            if self.fault.get(name) == "cut":
                writer.transport.abort()
                return
            try:
                there, back = await asyncio.open_connection("127.0.0.1", self._targets[name])
            except OSError:
                writer.transport.abort()
                return
            self._writers[name] |= {writer, back}
            await asyncio.gather(self._pump(name, reader, back), self._pump(name, there, writer))
            self._writers[name] -= {writer, back}

        await asyncio.start_server(serve, "127.0.0.1", self.ports[name])

    async def _pump(self, name, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                while self.fault.get(name) == "hold":
                    await asyncio.sleep(0.05)
                if self.fault.get(name) == "slow":
                    await asyncio.sleep(len(data) / 20_000)
                if self.fault.get(name) == "spoil" and len(data) > 100:
                    data = data[:50] + bytes([data[50] ^ 1]) + data[51:]
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Chaos:
    """A deployment, what has befallen it, and how it went."""

    def __init__(self, folder, asked):
        self.draw, self.every_s, self.killing_s = random.Random(asked.seed), asked.every, asked.kill_cloud
        self.run, self.folder = folder / "run", folder
        shape = [f"network.edges={asked.edges}", f"network.ues_per_edge={asked.ues_per_edge}"]
        small = ["data.samples_per_ue=[5, 15]", "evaluation.test_samples=10", "training.rounds=10000000"]
        config = load(
            "quickstart-paper",
            overrides=[*shape, f"planning.max_edges={asked.edges}", *small, f"planning.planner={asked.planner}"],
        )
        self.nodes = lay_out(folder, config, LocalOptions(paced=asked.paced, time_scale=0.3, timing=TIMING))
        self.links = self._between(folder)
        self.supervisor = Supervisor(self.nodes)
        self.happened, self.gaps = [], []
        self.waits = {"alone": [], "everybody": [], "disturbed": []}
        self.began_s = time.monotonic()
        self.end_s = self.began_s + 60 * asked.minutes
        self._due_s, self._mends, self._rounds_then, self._tell_s = 0.0, [], 0, self.began_s + TELL_S
        self._cloud, self._since, self._everybody, self._disturbed = None, None, False, False
        self._counted, self._read = 0, 0

    def _between(self, folder):
        """Put a proxy before every parent."""
        files = {node.name: (node.file, tomlkit.parse(node.file.read_text())) for node in self.nodes}
        targets = {
            name: int(tree["listen"].rpartition(":")[2]) for name, (_, tree) in files.items() if "listen" in tree
        }
        links = Links(targets)
        for file, tree in files.values():
            for key, parent in (("cloud", "cloud"), ("edge", tree.get("edge_name"))):
                if key in tree:
                    tree[key] = f"127.0.0.1:{links.ports[parent]}"
            file.write_text(tomlkit.dumps(tree))
        return links

    def play(self):
        """Until the time is over."""
        library = _clock_library(self.folder)
        if library:
            os.environ |= {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.folder / "clock")}
        self.has_clock = library is not None
        self.supervisor.start()
        try:
            return self.supervisor.watch(self._tick, every_s=0.05)
        except TimeoutError:
            return 0
        except KeyboardInterrupt:
            return 130
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for process in self.supervisor.processes.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
            self.supervisor.stop()
            os.environ.pop("LD_PRELOAD", None)

    def rounds(self):
        """Lines of rounds.jsonl; only what is new is read, and all of it where a cloud has cut the file."""
        path = self.run / "rounds.jsonl"
        if not path.exists():
            return 0
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._read:
                self._counted = self._read = 0
            file.seek(self._read)
            data = file.read()
        self._counted, self._read = self._counted + data.count(b"\n"), self._read + len(data)
        return self._counted

    def _tick(self):
        now_s, rounds = time.monotonic(), self.rounds()
        self._time_restarts(now_s, rounds)
        for due_s, mend in list(self._mends):
            if now_s >= due_s:
                mend()
                self._mends.remove((due_s, mend))
        if now_s >= self._tell_s:
            self._tell_s += TELL_S
            minutes = (now_s - self.began_s) / 60
            print(f"{minutes:.0f} min: {rounds} rounds, {len(self.happened)} strikes", file=sys.stderr, flush=True)
        if now_s > self.end_s:
            raise TimeoutError
        if rounds and now_s >= self._due_s and not self._is_timed(now_s):
            if self.happened:
                self.gaps.append(rounds - self._rounds_then)
            self._strike(now_s)
            self._rounds_then = rounds
            self._due_s = now_s + self.every_s * (0.5 + self.draw.random())

    def _time_restarts(self, now_s, rounds):
        """From a new cloud process to the first round after it."""
        process = self.supervisor.processes["cloud"]
        if process is not self._cloud:
            fresh, self._cloud = self._cloud is None, process
            self._since = None if fresh else (now_s, rounds)
            self._disturbed = bool(self._mends)
            if self.killing_s:
                self._due_s = now_s + self.draw.uniform(*self.killing_s)
        if self._since and rounds > self._since[1]:
            self._note_wait(now_s)

    def _note_wait(self, now_s):
        kind = "disturbed" if self._disturbed else "everybody" if self._everybody else "alone"
        self.waits[kind].append(round(now_s - self._since[0], 2))
        self._since, self._everybody = None, False

    def _is_timed(self, now_s):
        """Whether a cloud's start is being timed: the next strike waits, until the start has taken too long anyway."""
        return not self.killing_s and self._since is not None and now_s - self._since[0] <= ALL_DIED_BAR_S

    def _strike(self, now_s):
        if self._since:
            self._note_wait(now_s)  # no round came in time
        if self.killing_s:
            self.happened.append("kill cloud")
            self._kill("cloud", now_s)
            return
        if self.draw.random() < 0.33:
            name, fault = self.draw.choice(list(self.links.ports)), self.draw.choice(LINK_FAULTS)
            self.links.strike(name, fault)
            self._mends.append((now_s + 1 + 3 * self.draw.random(), lambda: self.links.strike(name, None)))
            self.happened.append(f"{fault} {name}")
            return
        kind, name = self.draw.choice(NODE_STRIKES), self.draw.choice(self._who())
        if kind == "clock" and not self.has_clock:
            kind = "kill"
        self.happened.append(f"{kind} {name}")
        getattr(self, f"_{kind}")(name, now_s)

    def _who(self):
        """The cloud as often as all edges or all UEs together; everybody at once now and then."""
        edges = [node.name for node in self.nodes if node.role == "edge"]
        ues = [node.name for node in self.nodes if node.role == "ue"]
        return ["cloud"] * 4 + [self.draw.choice(edges) for _ in range(4)] + [self.draw.choice(ues)] * 4 + ["everybody"]

    def _of(self, name):
        return [process for who, process in self.supervisor.processes.items() if name in {who, "everybody"}]

    def _kill(self, name, now_s):
        self._everybody = self._everybody or name == "everybody"
        for process in self._of(name):
            process.kill()

    def _terminate(self, name, now_s):
        """A cloud that was asked to end is not started again by the supervisor: it is killed instead."""
        for process in self._of(name):
            cloud = process is self.supervisor.processes["cloud"]
            process.send_signal(signal.SIGKILL if cloud else signal.SIGTERM)
            if not cloud:
                self._mends.append((now_s + 3, lambda process=process: self._again(process)))
        self._everybody = self._everybody or name == "everybody"

    def _again(self, process):
        name = next((who for who, one in self.supervisor.processes.items() if one is process), None)
        if name and process.poll() == 0:
            self.supervisor._start(name)

    def _freeze(self, name, now_s):
        for process in self._of(name):
            process.send_signal(signal.SIGSTOP)
            self._mends.append((now_s + 1 + 4 * self.draw.random(), lambda process=process: _cont(process)))

    def _clock(self, name, now_s):
        """All clocks jump, since all nodes read one file; and back."""
        (self.folder / "clock").write_text(str(self.draw.choice([-1, 1]) * self.draw.randrange(60, 30 * 86400)))
        self._mends.append((now_s + 2, lambda: (self.folder / "clock").write_text("0")))


def _cont(process):
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)


def _clock_library(folder):
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    (folder / "clock").write_text("0")
    done = subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=False)
    return library if done.returncode == 0 else None


def faults_in(logs):
    """Lines that no node should write, by what they say."""
    found = {}
    for path in sorted(logs.glob("*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            if "Traceback" in line or '"level": "error"' in line:
                found[f"{path.stem}: {line[:300]}"] = found.get(f"{path.stem}: {line[:300]}", 0) + 1
    return found


def audited(run):
    path = Path(__file__).with_name("audit_recurrence.py")
    spec = importlib.util.spec_from_file_location("audit_recurrence", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    try:
        return {"audit": "exact", **script.audit(run)}
    except Exception as error:  # noqa: BLE001  whatever it is, the audit is not exact
        return {"audit": f"{type(error).__name__}: {error}"}


def _row(work, value, unit, bar=None, ok=True):
    return {"work": work, "value": value, "unit": unit, "bar": bar, "ok": bool(ok)}


def _waited(told, waits, bar_s):
    """Median and worst of some restarts."""
    if not waits:
        return []
    waits = sorted(waits)
    return [
        _row(f"{told}, how many", len(waits), ""),
        _row(f"{told}, median", waits[len(waits) // 2], "s"),
        _row(f"{told}, worst", waits[-1], "s", bar_s, bar_s is None or waits[-1] <= bar_s),
    ]


def rows_of(chaos, found, faults):
    """What there is to say, in rows."""
    kinds = Counter(one.split()[0] for one in chaos.happened)
    lived, gaps = sum(gap > 0 for gap in chaos.gaps), len(chaos.gaps)
    per = "lives of the cloud" if chaos.killing_s else "gaps between strikes"
    middle = sorted(chaos.gaps)[gaps // 2] if gaps else 0
    return [
        _row("played", round((time.monotonic() - chaos.began_s) / 60, 1), "min"),
        *(_row(f"strikes: {kind}", count, "") for kind, count in sorted(kinds.items())),
        _row("processes started again", sum(chaos.supervisor.restarts.values()), ""),
        _row("rounds", chaos.rounds(), "", 1, chaos.rounds() >= 1),
        _row(f"{per} with a round", lived, f"of {gaps}", gaps, ok=lived == gaps),
        _row(f"rounds in {per}, median", middle, ""),
        *_waited("cloud's start to next round", chaos.waits["alone"], RESTART_BAR_S),
        *_waited("the same, everybody died", chaos.waits["everybody"], ALL_DIED_BAR_S),
        *_waited("the same, disturbed", chaos.waits["disturbed"], None),
        _row("error lines and tracebacks", sum(faults.values()), "", 0, not faults),
        _row("audit", found["audit"], "", "exact", found["audit"] == "exact"),
    ]


def report(chaos, status, *, as_json):
    """Print the table; 1 where a bar is missed."""
    faults, found = faults_in(chaos.folder / "logs"), audited(chaos.run)
    rows = rows_of(chaos, found, faults)
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        width = max(len(row["work"]) for row in rows)
        for row in rows:
            bar = "" if row["bar"] is None else f"(bar {row['bar']}{'' if row['ok'] else ', MISSED'})"
            print(f"{row['work']:{width}}  {row['value']} {row['unit']} {bar}".rstrip())
    if chaos.killing_s:
        print(f"rounds in each life: {chaos.gaps}", file=sys.stderr)
    for fault, count in list(faults.items())[:20]:
        print(f"{count} times {fault}", file=sys.stderr)
    return int(status not in {0, 130} or not all(row["ok"] for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--planner", default="full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--edges", type=int, default=3)
    parser.add_argument("--ues-per-edge", type=int, default=3)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between strikes, on average")
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--kill-cloud", type=float, nargs=2, metavar=("LEAST", "MOST"), help="seconds of each life")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="an empty folder; a temporary one otherwise")
    asked = parser.parse_args()
    folder = asked.out or Path(tempfile.mkdtemp(prefix="hpfl-chaos-"))
    print(f"in {folder}", file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chaos = Chaos(folder, asked)
    status = chaos.play()
    failed = report(chaos, status, as_json=asked.json)
    if not failed and asked.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed or (130 if status == 130 else 0))


if __name__ == "__main__":
    main()
