"""Clouds, edges and UEs inside one test process, on loopback, with real certificates."""

import asyncio
import importlib.util
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.certificates import init_authority, issue
from hpfl.deployment.deployed_run import build_deployment
from hpfl.deployment.edge import Edge
from hpfl.deployment.learner import Learner
from hpfl.deployment.node import SharedWork
from hpfl.deployment.own_data import own_data
from hpfl.deployment.run_watchers import Audited
from hpfl.deployment.settings import (
    CloudNodeSettings,
    EdgeNodeSettings,
    LimitSettings,
    TimingSettings,
    TlsSettings,
    UeNodeSettings,
)
from hpfl.deployment.ue import Ue
from hpfl.training.loop import train

_SCRIPT = Path(__file__).parents[2] / "scripts" / "audit_recurrence.py"
_spec = importlib.util.spec_from_file_location("audit_recurrence", _SCRIPT)
audit_script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(audit_script)

SMALL = [
    "network.edges=2",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 15]",
    "evaluation.test_samples=10",
    "evaluation.every=100",
    "planning.planner=full",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=3",
]
QUICK = {
    "gather_s": 20.0,
    "compute_s": 20.0,
    "deadline_slack_s": 3.0,
    "evaluate_s": 20.0,
    "retry_s": 0.3,
    "least_wait_s": 5.0,
}


class Certificates:
    """One authority, and a certificate for whoever is asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = init_authority(folder)
        self._issued = set()

    def tls(self, name):
        if name not in self._issued:
            issue(self.authority, self.folder, name)
            self._issued.add(name)
        return TlsSettings(
            ca=str(self.folder / "ca.pem"),
            certificate=str(self.folder / f"{name}.pem"),
            private_key=str(self.folder / f"{name}.key"),
        )


class Tiny:
    """A learner that needs no data: its update on a model is the model itself, scaled by its number."""

    def __init__(self, number, length, num_samples=7):
        self.number, self.length, self.num_samples = number, length, num_samples
        self.sketches = None  # how the experiment sketches, given by who starts it
        self.delay_s = 0.0

    def update(self, params, *, base_round, edge_round):
        time.sleep(self.delay_s)
        return (params * (0.1 + 0.01 * self.number)).astype(params.dtype)

    def sketch(self, update):
        return self.sketches.sketch(update)

    def evaluate(self, params):
        return np.array([1.0, 0.5, 0.75, 0.25, 0.6, 1.1])


_SERIAL = itertools.count()


class Nodes:
    """A whole deployment in one event loop; the training loop runs in the caller's thread."""

    def __init__(self, certificates, *overrides, limits=None, timing=None, tiny=False, **cloud):
        self.certificates = certificates
        self.serial = next(_SERIAL)  # what nodes keep is theirs alone
        self.common = {
            "experiment": "quickstart-paper",
            "set": [*SMALL, *overrides],
            "limits": LimitSettings(**(limits or {})),
            "timing": TimingSettings(**{**QUICK, **(timing or {})}),
        }
        self.tiny = tiny
        self.loop = LoopThread()
        self.loop.__enter__()
        options = {"paced": False, **cloud}
        self.cloud_settings = CloudNodeSettings(
            listen="127.0.0.1:0", tls=certificates.tls("cloud"), **self.common, **options
        )
        self.experiment = SharedWork(self.cloud_settings)
        self.config = self.experiment.config
        self.edges, self.ues, self.tasks, self.learners = {}, {}, {}, {}
        self.edge_ports = {}

    def __enter__(self):
        return self

    def __exit__(self, *exit_info):
        for name in list(self.tasks):
            self.kill(name)
        if hasattr(self, "deployment"):
            self.loop.run(self.deployment.cloud.stop(completed=False), 10)
        self.loop.__exit__()

    def start_cloud(self, *, audit=None, state=None, run="run-1", port=0):
        self.cloud_settings.listen = f"127.0.0.1:{port}"
        self.deployment = build_deployment(self.cloud_settings, self.experiment, self.loop, run=run)
        self.audited = None if audit is None else Audited(audit, self.deployment.executor)
        self.state = state or self.deployment.start
        self.deployment.executor.prepare(self.state)
        if audit is not None:
            self.audited.begin(self.state)
        self.cloud_port = self.loop.run(self.deployment.cloud.start(), 10)
        return self.deployment

    def stop_cloud(self):
        self.loop.run(self.deployment.cloud.hub.stop(), 10)

    def edge_settings(self, number, *, listen=0, cloud_port=None):
        return EdgeNodeSettings(
            name=f"edge-{number}",
            number=number,
            listen=f"127.0.0.1:{listen}",
            cloud=f"127.0.0.1:{cloud_port or self.cloud_port}",
            tls=self.certificates.tls(f"edge-{number}"),
            state=str(self.certificates.folder / f"state-{self.serial}" / f"edge-{number}"),
            **self.common,
        )

    def start_edge(self, number, *, listen=0, cloud_port=None):
        settings = self.edge_settings(number, listen=listen, cloud_port=cloud_port)

        async def begin():
            edge = Edge(settings, SharedWork(settings))
            return edge, await edge.start()

        self.edges[number], self.edge_ports[number] = self.loop.run(begin(), 10)
        self._spawn(f"edge-{number}", self.edges[number].run())
        return self.edges[number]

    def ue_settings(self, number, *, port=None):
        edge = number // self.config.network.ues_of_edges[0]
        return UeNodeSettings(
            name=f"ue-{number}",
            number=number,
            edge=f"127.0.0.1:{port or self.edge_ports[edge]}",
            edge_name=f"edge-{edge}",
            tls=self.certificates.tls(f"ue-{number}"),
            state=str(self.certificates.folder / f"state-{self.serial}" / f"ue-{number}"),
            **self.common,
        )

    def start_ue(self, number, *, port=None, learner=None):
        settings = self.ue_settings(number, port=port)
        experiment = SharedWork(settings)
        self.learners[number] = learner or self.learner(number, experiment)
        if isinstance(self.learners[number], Tiny):
            self.learners[number].sketches = experiment.sketches

        async def begin():
            return Ue(settings, experiment, self.learners[number])

        self.ues[number] = self.loop.run(begin(), 10)
        self._spawn(f"ue-{number}", self.ues[number].run())
        return self.ues[number]

    def learner(self, number, experiment):
        if self.tiny:
            return Tiny(number, experiment.spec.length)
        torch.set_num_threads(1)
        return Learner(experiment.config, number, own_data("", experiment.config, number), experiment.task)

    def start_all(self, **cloud):
        deployment = self.start_cloud(**cloud)
        for edge in range(self.config.network.edges):
            self.start_edge(edge)
        for ue in range(self.config.network.num_ues):
            self.start_ue(ue)
        return deployment

    def play(self, rounds=None, watch=None):
        """Play rounds; the parameters after each of them."""
        after = []

        def noted(state, record):
            if self.audited is not None:
                self.audited.round(state, record)
            after.append(state.params.clone())
            self.state = state
            self.record = record
            goes_on = watch is None or watch(state, record)
            return goes_on and (rounds is None or len(after) < rounds)

        self.state = train(self.state, self.deployment.parts, self.deployment.settings, noted)
        return after

    def kill(self, name):
        task = self.tasks.pop(name, None)
        if task is None:
            return

        async def end():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.loop.run(end(), 15)

    def _spawn(self, name, work):
        async def begin():
            return asyncio.get_running_loop().create_task(work)

        self.tasks[name] = self.loop.run(begin(), 5)


def refused(hub):
    """Refusals so far, by rule."""
    samples = [sample for family in hub.metrics.refused.collect() for sample in family.samples]
    return {sample.labels["code"]: sample.value for sample in samples if sample.name.endswith("_total")}


class Proxy:
    """A TCP link that can be cut: bytes pass both ways until then, and new connections are refused while it is cut."""

    def __init__(self, loop, target_port):
        self._loop, self._target = loop, target_port
        self._writers, self._tasks = set(), set()
        self._cut = False

        async def begin():
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            return self._server.sockets[0].getsockname()[1]

        self.port = loop.run(begin(), 5)

    def cut(self):
        async def end():
            self._cut = True
            for writer in list(self._writers):
                writer.transport.abort()

        self._loop.run(end(), 5)

    def mend(self):
        self._cut = False

    def close(self):
        """Listen no more, then cut: who is cut off comes again at once, and asyncio leaks what it accepts meanwhile."""

        async def stop_listening():
            self._server.close()

        self._loop.run(stop_listening(), 5)
        self.cut()

        async def end():
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.02)  # transports close when the loop has its next turn

        self._loop.run(end(), 5)

    async def _serve(self, reader, writer):
        if self._cut:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # nobody is there
            writer.transport.abort()
            return
        self._writers.add(back)
        pumps = [asyncio.ensure_future(self._pump(reader, back)), asyncio.ensure_future(self._pump(there, writer))]
        self._tasks |= set(pumps)
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                self.seen(data)
                writer.write(data)
                await writer.drain()
        except (ConnectionError, OSError):
            pass
        finally:
            writer.transport.abort()

    def seen(self, data):
        """For those who watch."""


def until(condition, seconds=60.0):
    """Wait until something is so; fail if it takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
