"""What neither a long run nor a flood may make grow: a cloud's books, a UE's queue, open files, a node's last wait."""

import asyncio
import gc
import itertools
import resource
import socket
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from deployment_nodes import SMALL, Nodes, until

from hpfl.deployed import _board, _listeners, _subject
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.deployed_run import build_deployment
from hpfl.deployment.node import SharedWork
from hpfl.deployment.open_files import connections_for
from hpfl.deployment.own_thread import OwnThread
from hpfl.deployment.round_timing import Timing
from hpfl.deployment.settings import CloudNodeSettings, LimitSettings
from hpfl.deployment.wire import encode
from hpfl.recorder import RunRecorder
from hpfl.reporting.store import RunStore
from hpfl.stopping import Stop
from hpfl.training.record import RoundRecord

ONE_EDGE = ("network.edges=1", "planning.max_edges=1", "training.rounds=1000")


def timing_of_a_crowd(round_number, ues=1000):
    seconds = {ue: 0.1 + 1e-6 * (ue + round_number) for ue in range(ues)}
    edge = {0: 0.5 + 1e-6 * round_number}
    return Timing(
        round=round_number,
        planned_s=0.5,
        measured_s=0.6,
        edge_planned_s=dict(edge),
        edge_measured_s=edge,
        ue_planned_s=dict(seconds),
        ue_measured_s=seconds,
        ue_bytes=318_040,
    )


def record_of(round_number):
    figures = dict.fromkeys(
        ("time_s", "latency_s", "mean_staleness", "importance", "bandwidth_used_hz", "uplink_bits", "energy_j"), 1.0
    )
    more = dict.fromkeys(("planning_s", "objective", "lower_bound", "relative_gap"), 0.5)
    counts = {"num_scheduled": 1, "scheduled": (0,), "num_aggregated": 1, "max_staleness": 0}
    return RoundRecord(round=round_number, **figures, **more, **counts)


def test_a_clouds_books_do_not_grow_with_the_rounds(tmp_path):
    """A thousand UEs; everything that is kept of a round between the executor and the files of the run."""
    shape = ["network.edges=1", "network.ues_per_edge=1000", "planning.max_edges=1", "training.rounds=100000"]
    settings = CloudNodeSettings(experiment="quickstart-paper", set=[*SMALL, *shape])
    with LoopThread() as loop, RunStore.open(tmp_path, resume=True) as store:
        experiment = SharedWork(settings)
        deployment = build_deployment(settings, experiment, loop, run="run-1")
        board = _board(experiment, deployment)
        deployment.executor.on_timing = board.took
        listeners = _listeners(Stop(), [], [board])
        subject = _subject(settings, experiment, deployment)
        recorder = RunRecorder(subject, store, listeners)
        state = recorder.open(deployment.start, resume=True)
        recorder.started(state)
        object.__setattr__(recorder._subject, "save_every", 0)

        def play(rounds):
            for number in rounds:
                deployment.executor._note(timing_of_a_crowd(number))
                recorder.after_round(state.but(round=number), record_of(number))
            gc.collect()

        play(range(1, 41))
        tracemalloc.start()
        play(range(41, 61))  # what is kept of the last rounds is traced from here on
        before, _ = tracemalloc.get_traced_memory()
        play(range(61, 121))
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (after - before) / 60 < 300  # bytes a round; of 146 kB that were kept
    assert len(recorder.records) == 120


def test_cloud_edge_and_ue_hold_no_more_after_hundreds_of_rounds_than_before_them(certificates, tmp_path):
    """All three in this process, over real streams, with an audit; what Python has allocated, in blocks.

    NumPy and Python fill lists of freed blocks for a few hundred rounds, so one stretch of three must be level; all of
    them together may grow by less than a record of six numbers for each round.
    """

    def blocks():
        nodes.loop.run(_without_cancelled_timers(), 10)
        gc.collect()
        return sys.getallocatedblocks()

    with Nodes(certificates, *ONE_EDGE, "network.ues_per_edge=1", tiny=True) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "hashes"))
        executor = nodes.deployment.executor
        executor.over_planned = deque(maxlen=16)  # of ten thousand, which would take as many rounds to fill
        nodes.edges[0].ues.ways._norms._accepted = deque(maxlen=16)  # of 256
        nodes.deployment.cloud._ways._norms._accepted = deque(maxlen=16)
        kept = []
        for _ in range(5):
            nodes.play(60)
            kept.append(blocks())
        assert nodes.record.round == 300
    least = min(after - before for before, after in itertools.pairwise(kept[1:]))
    assert least < 2 * 60, f"{kept} blocks, 60 rounds apart"  # what is kept of each round would show every time
    assert kept[-1] - kept[1] < 6 * 180, f"{kept} blocks, 60 rounds apart"


async def _without_cancelled_timers():
    """An event loop lets go of them only when there are many: up to a hundred would blur what is kept of rounds."""
    loop = asyncio.get_running_loop()
    loop._scheduled = sorted(timer for timer in loop._scheduled if not timer.cancelled())
    loop._timer_cancelled_count = 0


def test_what_was_cancelled_before_its_turn_is_not_kept_by_the_thread():
    """A pool's own queue holds on to the models of work that nobody waits for any more."""

    async def flood():
        thread, models = OwnThread("ue-0"), []
        busy = asyncio.ensure_future(thread.run(lambda: time.sleep(1.0)))
        await asyncio.sleep(0.05)
        for _ in range(50):
            model = np.zeros(250_000)
            work = asyncio.ensure_future(thread.run(lambda model=model: model.sum()))
            await asyncio.sleep(0)
            work.cancel()
            models.append(work)
            del model
        await asyncio.wait(models)
        models.clear()
        del work
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        await busy
        assert await thread.run(lambda: 7) == 7
        thread.end()
        return kept

    tracemalloc.start()
    try:
        assert asyncio.run(flood()) < 10e6  # of 100 MB
    finally:
        tracemalloc.stop()


@pytest.fixture
def ordered(certificates):
    """An edge and a UE that has announced an update; what the edge would send it is sent by hand."""
    with Nodes(certificates, *ONE_EDGE, tiny=True, timing={"gather_s": 0.5}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        nodes.play(1)
        side = nodes.edges[0].ues.side
        computing = nodes.ues[0].up.computing
        until(lambda: computing.held is not None and computing.held.tag.base_round == 1)
        yield nodes, side.hub.children[0], nodes.ues[0].up.computing.held.tag


BAD_ORDERS = {
    "a million seconds": {"compute_s": 1e9, "paced": True},
    "negative": {"upload_s": -1.0},
    "undefined": {"deadline_s": float("nan")},
    "UEs of its own": {"ue": [0], "ue_compute_s": [0.0], "ue_upload_s": [0.0], "ue_counted": [0]},
    "lists that differ": {"ue_compute_s": [0.0] * 5},
}


@pytest.mark.parametrize("what", BAD_ORDERS)
def test_an_order_that_no_plan_gives_is_refused(ordered, lines, what):
    nodes, child, tag = ordered
    nodes.loop.run(child.stream.send(encode(tag, order=pb.Order(**BAD_ORDERS[what]))), 10)
    until(lambda: lines("refused parent's message"))
    assert lines("refused parent's message")[0]["code"] in {"late", "identity", "shape"}
    assert not nodes.ues[0].up.link.background.is_busy("upload")
    nodes.play(1)
    assert nodes.record.num_participants == 1


def test_a_flood_of_orders_leaves_one_in_hand_and_a_signal_still_ends_the_ue(ordered, lines):
    """Each is of a later round, an hour long and as large as a frame may be."""
    from dataclasses import replace

    nodes, child, tag = ordered
    ue = nodes.ues[0]
    object.__setattr__(nodes.common["timing"], "finish_s", 0.3)

    async def flood():
        for number in range(200):
            order = pb.Order(compute_s=3600.0, paced=True)
            await child.stream.send(encode(replace(tag, round=tag.round + 1 + number), order=order))
        huge = pb.Order(ue=range(100_000), ue_compute_s=[1.0] * 100_000)
        for _ in range(20):
            await child.stream.send(encode(replace(tag, round=tag.round + 500), order=huge))

    nodes.loop.run(flood(), 60)
    until(lambda: ue.up.uploads._order is not None and ue.up.uploads._order.tag.round == tag.round + 200)
    until(lambda: lines("refused parent's message"))
    tasks = nodes.loop.run(_tasks(), 10)
    assert sum("Uploads" in repr(task) or "upload" in repr(task) for task in tasks) <= 1
    assert ue.up.link.background.is_busy("upload")
    nodes.loop.run(ue.settle(), 30)  # what SIGTERM waits for


async def _tasks():
    return asyncio.all_tasks()


def test_a_roster_beyond_the_connections_gets_a_warning_at_the_start(certificates, lines):
    with Nodes(certificates, *ONE_EDGE, tiny=True, limits={"connections": 1}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        (said,) = lines("fewer connections than children")
    assert (said["children"], said["connections"]) == (2, 1)
    assert "limits.connections is 1" in said["because"]


FEW_FILES = """
import asyncio, resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from hpfl.deployment.environment import prepare
prepare()
from hpfl.deployment.hub import Hub
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import LimitSettings, TlsSettings

async def main():
    tls = TlsSettings(ca=sys.argv[1], certificate=sys.argv[2], private_key=sys.argv[3])
    roster = {f"ue-{i}": i for i in range(1000)}
    hub = Hub(None, roster, shapes=None, limits=LimitSettings(), metrics=Metrics())
    print(await hub.start("127.0.0.1:0", tls), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    before = time.process_time()
    await asyncio.sleep(2.0)
    try:
        files = [open("/dev/null") for _ in range(16)]
    except OSError as error:
        files = []
    print(time.process_time() - before, len(files), flush=True)
    await hub.stop()

asyncio.run(main())
"""


@pytest.mark.slow
def test_with_few_open_files_a_server_turns_newcomers_away_and_goes_on(certificates):
    tls = certificates.tls("edge-0")
    command = [sys.executable, "-c", FEW_FILES, tls.ca, tls.certificate, tls.private_key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(400)]
        time.sleep(0.5)
        server.stdin.write("\n")
        server.stdin.flush()
        busy_s, files = server.stdout.readline().split()
        for one in crowd:
            one.close()
        server.wait(20)
    assert float(busy_s) < 1.0  # of 2 s
    assert int(files) == 16  # there is room for a checkpoint, or the way up


def test_as_many_files_may_be_open_as_this_user_is_allowed():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(len(list(Path("/proc/self/fd").iterdir())) + 32, 256), hard))
        assert connections_for(10, LimitSettings(connections=10**9)) > hard - 1000
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
