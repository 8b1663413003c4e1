"""Send frames mutated from real ones to a real cloud, edge and UE, and say what they did to them.

    python scripts/hostile_frames.py --seconds 3600 [--target cloud|edge|ue|all] [--seed 0]

A small deployment of real processes trains. Beside it an edge and a UE with valid certificates and bad manners: the
hostile edge speaks to the cloud and serves a real UE, the hostile UE speaks to a real edge. Both take part honestly now
and then, so that everything they have seen, and what an honest node would answer, can be mutated: bits, lengths, order,
and every field of a message set to extremes. Reported in one table, or with `--json` as rows of work, value, unit, bar
and ok: frames to each target, rounds meanwhile, tracebacks (0 wanted) and the memory of each target at the beginning
(once it is warm: after a tenth of ten minutes or more, a third of less), in the middle and at the end. The exit status
is 1 where there is a traceback, a target died or was sent nothing, or memory grew by more than a tenth and 20 MB; it is
130 after Ctrl-C, which ends all processes first. A temporary folder is removed where nothing was wrong.

gRPC keeps what an attacker wrote to streams that nobody reads. So the attackers are a process of their own, which gives
way to a fresh one, with another seed, every two minutes or once it has grown to 2 GB.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hpfl.deployment.environment import prepare

prepare()

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tomlkit  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402

from hpfl.config import load  # noqa: E402
from hpfl.deployment import tier_pb2 as pb  # noqa: E402
from hpfl.deployment.local import LocalOptions, Supervisor, lay_out  # noqa: E402
from hpfl.deployment.node import SharedWork  # noqa: E402
from hpfl.deployment.security import (  # noqa: E402
    channel_credentials,
    client_options,
    read_files,
    server_credentials,
    server_options,
)
from hpfl.deployment.settings import EdgeNodeSettings, UeNodeSettings, read_settings  # noqa: E402
from hpfl.deployment.wire import METHOD, VERSION, Tag, encode, numbers, vector_frames  # noqa: E402

HOSTILE = ("edge-1", "ue-1")
LOOK_S, TELL_S, LONG_S = 5.0, 60.0, 600.0
WATCHED = {"cloud": "cloud", "edge": "edge-0", "ue": "ue-2"}
EXTREMES = {
    "int": [0, 1, 2, 3, 7, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1],
    "float": [0.0, -1.0, 1e9, -1e308, 1e308, float("nan"), float("inf"), float("-inf"), 5e-324],
    "text": ["", "ue-0", "edge-0", "cloud", "\x00", "\x1b[2J\r\n{}", "ü" * 5000, "a" * 200_000],
}
MOST_KEPT = 400
SHIFT_S, MOST_OWN_MB = 120.0, 2000.0
"""How long one process of attackers goes on, and how large it may become."""


class Mutator:
    """Frames that were seen, and what becomes of them."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.seen = []

    def saw(self, frame):
        """Keep a frame to be mutated."""
        if len(self.seen) < MOST_KEPT:
            self.seen.append(frame)
        else:
            self.seen[self.draw.randrange(MOST_KEPT)] = frame

    def made(self):
        """One hostile frame."""
        frame = self.draw.choice(self.seen)
        ways = (self._fields, self._fields, self._fields, self._bits, self._cut, self._spliced, lambda same: same)
        return self.draw.choice(ways)(frame)[: 2 * 2**20 - 64]

    def _bits(self, frame):
        spoiled = bytearray(frame)
        for _ in range(self.draw.choice([1, 1, 2, 8, 64])):
            place = self.draw.randrange(min(len(spoiled), self.draw.choice([40, 400, 1 << 22])) or 1)
            if spoiled:
                spoiled[place] ^= 1 << self.draw.randrange(8)
        return bytes(spoiled)

    def _cut(self, frame):
        return frame[: self.draw.randrange(len(frame) + 1)]

    def _spliced(self, frame):
        other = self.draw.choice(self.seen)
        return frame[: self.draw.randrange(len(frame) + 1)] + other[self.draw.randrange(len(other) + 1) :]

    def _fields(self, frame):
        try:
            message = pb.Frame.FromString(frame)
        except DecodeError:
            return frame
        for _ in range(self.draw.choice([1, 1, 1, 2, 4])):
            self._set_one(message)
        return message.SerializeToString()

    def _set_one(self, message):
        """Set a field somewhere inside, at random, to something that no honest node sends."""
        fields = message.DESCRIPTOR.fields
        present = [
            field for field in fields if field.message_type and not _repeated(field) and message.HasField(field.name)
        ]
        if present and self.draw.random() < 0.85:
            self._set_one(getattr(message, self.draw.choice(present).name))
            return
        if not fields:
            return
        field = self.draw.choice(list(fields))
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            if _repeated(field):
                self._set_many(message, field)
            elif field.message_type:
                getattr(message, field.name).SetInParent()
            else:
                setattr(message, field.name, self._extreme(field, getattr(message, field.name)))

    def _set_many(self, message, field):
        values = getattr(message, field.name)
        if field.message_type:
            values.add()
            return
        kept = list(values)
        self.draw.shuffle(kept)
        more = [self._extreme(field, 0) for _ in range(self.draw.choice([0, 1, 3, 1000]))]
        del values[:]
        values.extend(kept[: self.draw.randrange(len(kept) + 1)] + more)

    def _extreme(self, field, now):
        if field.cpp_type in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
            return self.draw.choice(EXTREMES["float"])
        if field.type == field.TYPE_BYTES:
            doubles = struct.pack("<4d", *(self.draw.choice(EXTREMES["float"]) for _ in range(4)))
            return self.draw.choice([b"", self._bits(now), self._cut(now), now + now, doubles * max(len(now) // 32, 1)])
        if field.cpp_type == field.CPPTYPE_STRING:
            return self.draw.choice([*EXTREMES["text"], now])
        if field.cpp_type == field.CPPTYPE_BOOL:
            return self.draw.random() < 0.5
        if field.cpp_type == field.CPPTYPE_ENUM:
            return self.draw.randrange(6)
        return self.draw.choice([*EXTREMES["int"], max(int(now) + self.draw.choice([-1, 1]), 0)])


def _repeated(field):
    return field.is_repeated


class Hostile:
    """A node with a valid certificate that attacks its parent, or the children that come to it."""

    def __init__(self, settings, seed, *, is_edge):
        self.settings, self.is_edge = settings, is_edge
        self.work = SharedWork(settings)
        self.up, self.down = Mutator(seed), Mutator(seed + 1)
        self.sent = {"parent": 0, "child": 0}
        self.num_samples = 0 if is_edge else 7
        self.first, self.count = settings.number * 2, 2

    def hello(self):
        message = pb.Hello(version=VERSION, fingerprint=self.work.fingerprint, num_samples=self.num_samples)
        return encode(Tag(node=self.settings.name), hello=message)

    def answers(self, data):
        """What an honest node might answer to a frame; also kept to be mutated."""
        self.down.saw(data)
        try:
            frame = pb.Frame.FromString(data)
        except DecodeError:
            return []
        tag = Tag(
            run=frame.tag.run,
            round=frame.tag.round,
            base_round=frame.tag.base_round,
            base=frame.tag.base,
            node=self.settings.name,
            edge_round=frame.tag.edge_round,
        )
        made = self._made(tag, frame)
        for one in made:
            self.up.saw(one)
        return made

    def _made(self, tag, frame):
        ues = list(range(self.first, self.first + self.count)) if self.is_edge else []
        samples = 7 * max(len(ues), 1)
        weight = self.work.weight(samples)
        figures = pb.Figures(ue=ues or [self.settings.number], values=numbers(np.full(6 * max(len(ues), 1), 0.5)))
        if frame.WhichOneof("body") == "begin":
            sketch = pb.Sketch(values=numbers(np.full(64, 0.01)), weight=weight, num_samples=samples, took_s=0.01)
            sketch.ue.extend(ues)
            sketch.samples.extend([7] * len(ues))
            more = [encode(tag, request=pb.Request()), encode(tag, refusal=pb.Refusal(code="stale", reason="no"))]
            return [encode(tag, sketch=sketch), encode(tag, figures=figures), *more]
        if frame.WhichOneof("body") == "order":
            vector = np.full(self.work.spec.length, 1e-4, dtype=self.work.spec.dtype)
            head = {"weight": weight, "num_samples": samples}
            if ues:
                head |= {"ue": ues, "took_s": [0.01] * len(ues)}
            return list(vector_frames(tag, vector, purpose=pb.UPDATE, **head))
        return []

    async def attack_parent(self, address, name, until_s):
        """Stream after stream, honest for a while or not at all, until the time is over."""
        options = client_options(self.settings.limits, server=name)
        credentials = channel_credentials(read_files(self.settings.tls))
        self.up.saw(self.hello())
        while time.monotonic() < until_s:
            async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
                with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, TimeoutError):
                    await self._one_stream(channel.stream_stream(METHOD)(), until_s)
            await asyncio.sleep(0.05)

    async def _one_stream(self, call, until_s):
        reading = asyncio.ensure_future(self._read(call))
        try:
            await call.write(self.up.made() if self.up.draw.random() < 0.1 else self.hello())
            end_s = min(until_s, time.monotonic() + self.up.draw.choice([0.2, 1.0, 5.0]))
            while time.monotonic() < end_s and not call.done():
                async with asyncio.timeout(5):
                    await call.write(self.up.made())
                self.sent["parent"] += 1
                if self.up.draw.random() < 0.02:
                    await asyncio.sleep(0.02)
        finally:
            reading.cancel()
            call.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, call):
        while (data := await call.read()) is not grpc.aio.EOF:
            for answer in self.answers(data):
                if self.up.draw.random() < 0.5:
                    await call.write(answer)

    async def serve_children(self, listen):
        """Be a parent that sends what it likes."""
        server = grpc.aio.server(options=server_options(self.settings.limits, connections=64))
        service, method = METHOD.strip("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        server.add_secure_port(listen, server_credentials(lambda: read_files(self.settings.tls)))
        await server.start()
        return server

    async def _serve(self, _requests, context):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await context.read()
        await context.write(encode(Tag(run="hostile", node=self.settings.name), welcome=pb.Welcome()))
        vector = np.full(self.work.spec.length, 1e-3, dtype=self.work.spec.dtype)
        for number in range(3):
            tag = Tag(
                run="hostile", round=number, base_round=number, node=self.settings.name, base=bytes([number]) * 16
            )
            for purpose in (pb.TRAIN, pb.EVALUATE):
                for frame in vector_frames(tag, vector, purpose=purpose):
                    self.down.saw(frame)
            self.down.saw(encode(tag, order=pb.Order(compute_s=0.1, upload_s=0.1, deadline_s=1.0)))
            self.down.saw(encode(tag, request=pb.Request()))
        end_s = time.monotonic() + self.down.draw.choice([0.5, 2.0, 8.0])
        while time.monotonic() < end_s:
            frame = self.down.made()
            with contextlib.suppress(Exception):
                if pb.Frame.FromString(frame).stop.completed:
                    continue  # a parent may end its children: that is no fault
            await context.write(frame)
            self.sent["child"] += 1
            if self.down.draw.random() < 0.02:
                await asyncio.sleep(0.02)


class Attackers:
    """The hostile edge and the hostile UE of a deployment that has been laid out, in a process of their own."""

    def __init__(self, folder, asked):
        self.edge = Hostile(read_settings(EdgeNodeSettings, folder / "nodes" / "edge-1.toml"), asked.seed, is_edge=True)
        self.ue = Hostile(read_settings(UeNodeSettings, folder / "nodes" / "ue-1.toml"), asked.seed + 2, is_edge=False)
        self.target, self.until_s = asked.target, time.monotonic() + asked.seconds

    def frames(self):
        """Sent so far to each target."""
        return {
            "cloud": self.edge.sent["parent"],
            "edge": self.ue.sent["parent"],
            "ue": self.edge.sent["child"],
        }

    async def attack(self):
        """Until the time is over or this process has grown too large; every second a line says what was sent."""
        work, server = [], None
        if self.target in {"cloud", "all"}:
            work.append(self.edge.attack_parent(self.edge.settings.cloud, self.edge.settings.cloud_name, self.until_s))
        if self.target in {"edge", "all"}:
            work.append(self.ue.attack_parent(self.ue.settings.edge, self.ue.settings.edge_name, self.until_s))
        if self.target in {"ue", "all"}:
            server = await self.edge.serve_children(self.edge.settings.listen)
        tasks = [asyncio.ensure_future(one) for one in work]
        while time.monotonic() < self.until_s and memory_mb(os.getpid()) < MOST_OWN_MB:
            print(json.dumps(self.frames()), flush=True)
            await asyncio.sleep(1.0)
            for task in tasks:
                if task.done():
                    task.result()  # one that was broken off ends this process, which says why
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if server is not None:
            await server.stop(0)
        print(json.dumps(self.frames()), flush=True)


class Attack:
    """The deployment, its hostile nodes, and what is measured."""

    def __init__(self, folder, asked):
        self.folder, self.run = folder, folder / "run"
        small = ["data.samples_per_ue=[5, 15]", "evaluation.test_samples=10", "training.rounds=10000000"]
        shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "planning.planner=full"]
        config = load("quickstart-paper", overrides=[*shape, *small])
        options = LocalOptions(paced=False, timing={"retry_s": 0.5, "compute_s": 3.0, "gather_s": 5.0})
        nodes = lay_out(folder, config, options)
        for node in nodes:
            tree = tomlkit.parse(node.file.read_text())
            tree["limits"] = {"refusals": 500}
            node.file.write_text(tomlkit.dumps(tree))
        self.supervisor = Supervisor([node for node in nodes if node.name not in {*HOSTILE, "ue-3"}])
        self.target, self.seconds, self.seed = asked.target, asked.seconds, asked.seed
        self.rss, self.broken, self.over = [], [], threading.Event()
        self.shifts = []
        """What each process of attackers has sent so far."""

    def play(self):
        """Until the time is over; 130 where it was broken off."""
        self.supervisor.start()
        began_s = time.monotonic()
        until_s = began_s + self.seconds
        attacking = threading.Thread(target=lambda: self._attack(until_s), daemon=True)
        attacking.start()
        try:
            return self.supervisor.watch(lambda: self._tick(began_s, until_s))
        except TimeoutError:
            return 0
        except KeyboardInterrupt:
            return 130
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.over.set()
            attacking.join(30)
            self.supervisor.stop()

    def _attack(self, until_s):
        """One process of attackers after another."""
        while not self.over.is_set() and time.monotonic() < until_s:
            seconds = min(SHIFT_S, until_s - time.monotonic())
            seed = self.seed + 4 * len(self.shifts)
            command = [sys.executable, __file__, "--attackers", "--out", self.folder, "--target", self.target]
            command += ["--seconds", str(seconds), "--seed", str(seed)]
            self.shifts.append(dict.fromkeys(WATCHED, 0))
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            threading.Thread(target=self._ended_early, args=(process,), daemon=True).start()
            for line in process.stdout:
                self.shifts[-1] = json.loads(line)
            words = process.stderr.read()
            if process.wait() and not self.over.is_set():
                self.broken.append(words[-2000:] or f"exit status {process.returncode}")
                return

    def _ended_early(self, process):
        """End the attackers where all is over."""
        self.over.wait()
        if process.poll() is None:
            process.terminate()

    def _tick(self, began_s, until_s):
        passed_s = time.monotonic() - began_s
        if passed_s >= LOOK_S * (len(self.rss) + 1):
            self.rss.append({name: memory_mb(process.pid) for name, process in self.supervisor.processes.items()})
            if len(self.rss) % round(TELL_S / LOOK_S) == 0:
                memory = ", ".join(f"{who} {self.rss[-1][name]} MB" for who, name in WATCHED.items())
                sent = sum(self.frames().values())
                print(f"{passed_s / 60:.0f} min: {sent} frames; {memory}", file=sys.stderr, flush=True)
        if time.monotonic() > until_s or self.broken:
            raise TimeoutError

    def frames(self):
        """Sent so far to each target."""
        return {who: sum(shift[who] for shift in self.shifts) for who in WATCHED}


def memory_mb(pid):
    """Resident memory of a process."""
    try:
        line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0.0
    return round(int(line.split()[1]) / 1024, 1)


def _row(work, value, unit, bar=None, ok=True):
    return {"work": work, "value": value, "unit": unit, "bar": bar, "ok": bool(ok)}


def faults_in(logs):
    """Lines that no node should write."""
    lines = [(path.stem, line) for path in sorted(logs.glob("*.jsonl")) for line in _lines(path)]
    return [f"{name}: {line[:300]}" for name, line in lines if "Traceback" in line or '"level": "error"' in line]


def _lines(path):
    with path.open(errors="replace") as file:
        yield from file


def _typical_mb(samples, name, at):
    """The median of a twentieth of all samples to either side: one look may catch a message on its way."""
    beside = len(samples) // 20 + 1
    return round(statistics.median(one[name] for one in samples[max(at - beside, 0) : at + beside + 1]), 1)


def memory_rows(attack):
    """What each target took at the beginning, in the middle and at the end."""
    count = len(attack.rss)
    if not count:
        return []
    first = count // 10 if count * LOOK_S >= LONG_S else count // 3
    rows = []
    for who, name in WATCHED.items():
        begin, middle, end = (_typical_mb(attack.rss, name, at) for at in (first, count // 2, count - 1))
        most = round(1.1 * begin + 20, 1)
        rows += [
            _row(f"memory of the {who} at the beginning", begin, "MB"),
            _row(f"memory of the {who} in the middle", middle, "MB"),
            _row(f"memory of the {who} at the end", end, "MB", most, end <= most),
        ]
    return rows


def rows_of(attack, faults):
    """What there is to say, in rows."""
    path, died = attack.run / "rounds.jsonl", sum(attack.supervisor.restarts.values())
    log_mb = sum(path.stat().st_size for path in (attack.folder / "logs").iterdir()) / 1e6
    sent = [
        _row(
            f"frames to the {who}",
            count,
            "",
            1 if attack.target in {who, "all"} else None,
            count or attack.target not in {who, "all"},
        )
        for who, count in attack.frames().items()
    ]
    rounds = sum(1 for _ in _lines(path)) if path.exists() else 0
    return [
        *sent,
        _row("rounds", rounds, "", 1, rounds),
        _row("processes that died", died, "", 0, not died),
        *memory_rows(attack),
        _row("log", round(log_mb, 2), "MB"),
        _row("attacks broken off", len(attack.broken), "", 0, not attack.broken),
        _row("error lines and tracebacks", len(faults), "", 0, not faults),
    ]


def report(attack, status, *, as_json):
    """Print the table; 1 where a bar is missed."""
    faults = faults_in(attack.folder / "logs")
    rows = rows_of(attack, faults)
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        width = max(len(row["work"]) for row in rows)
        for row in rows:
            bar = "" if row["bar"] is None else f"(bar {row['bar']}{'' if row['ok'] else ', MISSED'})"
            print(f"{row['work']:{width}}  {row['value']} {row['unit']} {bar}".rstrip())
    for line in [*attack.broken, *sorted(set(faults))[:20]]:
        print(line, file=sys.stderr)
    return int(status not in {0, 130} or not all(row["ok"] for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--target", choices=["cloud", "edge", "ue", "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="an empty folder; a temporary one otherwise")
    parser.add_argument("--attackers", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.attackers:
        asyncio.run(Attackers(asked.out, asked).attack())
        return
    folder = asked.out or Path(tempfile.mkdtemp(prefix="hpfl-hostile-"))
    print(f"in {folder}", file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    attack = Attack(folder, asked)
    status = attack.play()
    failed = report(attack, status, as_json=asked.json)
    if not failed and asked.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed or (130 if status == 130 else 0))


if __name__ == "__main__":
    main()
