"""What a peer with a valid certificate says of its own update: believed only as far as it can be checked."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from deployment_nodes import Nodes, Tiny, refused, until
from mallory import Mallory

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.wire import Tag, encode, numbers

QUICK = {"gather_s": 1.0, "compute_s": 5.0, "deadline_slack_s": 1.0}


@pytest.fixture
def cloud(certificates):
    """A cloud with one honest edge, edge 1; the place of edge 0 is Mallory's."""
    discounted = "training.staleness_discount=0.5"
    with Nodes(certificates, discounted, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(1)
        nodes.start_ue(2)
        nodes.start_ue(3)
        nodes.edge_ports[0] = nodes.cloud_port
        yield nodes


class MalloryEdge(Mallory):
    """Edge 0 of a test deployment, by hand."""

    def __init__(self, nodes):
        super().__init__(nodes, 0, name="edge-0", tls=nodes.certificates.tls("edge-0"), server="cloud")

    async def given(self):
        """Attach, and wait for the model; its tag."""
        await self.open()
        await self.hello()
        tag, _ = await self.next("vector")
        return tag.by(self.name)

    async def announce(self, tag):
        sketch = pb.Sketch(values=numbers(np.ones(64)), weight=1.0, num_samples=14, ue=[0, 1], samples=[7, 7])
        await self.call.write(encode(tag, sketch=sketch))


def attempt(nodes, work):
    """Let Mallory act as edge 0 while a round is played."""
    mallory = MalloryEdge(nodes)
    acting = nodes.loop.start(work(mallory))
    nodes.play(1)
    outcome = acting.result(60)
    nodes.loop.run(mallory.close(), 5)
    return outcome


LIES = {
    "another run": {"run": "run-2"},
    "a round beyond int64": {"base_round": 2**64 - 1},
    "a round to come": {"base_round": 10**15},
    "an edge round": {"edge_round": 1},
    "no model": {"base": b""},
    "what books without a model hold": {"base": bytes(16)},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_sketch_about_a_model_that_was_not_sent_is_refused(cloud, lie):
    async def work(mallory):
        await mallory.announce(replace(await mallory.given(), **LIES[lie]))
        await mallory.next("refusal")
        await mallory.close()
        return mallory.refusals

    assert attempt(cloud, work) == ["run" if "run" in LIES[lie] else "stale"]
    assert cloud.record.aggregated == (1,)
    assert cloud.record.staleness == (0,)


def test_a_ue_that_changes_its_sample_count_after_its_sketch_costs_its_edge_nothing(certificates):
    with Nodes(certificates, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_edge(1)
        nodes.start_ue(0)
        for ue in (2, 3):
            slow = Tiny(ue, nodes.experiment)
            slow.delay_s = 2.0
            nodes.start_ue(ue, learner=slow)
        first, second = Mallory(nodes, 1), Mallory(nodes, 1)

        async def work():
            await first.open()
            await first.hello(num_samples=7)
            tag, _ = await first.next("vector")
            await first.sketch(tag, num_samples=7)
            while nodes.edges[0].up.computing.held is None:
                await asyncio.sleep(0.02)
            await second.open()
            await second.hello(num_samples=9)
            tag, _ = await second.next("order")
            update = np.zeros(second.spec.length, np.float32)
            await second.send(*second.update(tag.by(second.name), update, num_samples=9))
            await second.next("refusal")

        acting = nodes.loop.start(work())
        nodes.play(1)
        acting.result(10)
        for mallory in (first, second):
            nodes.loop.run(mallory.close(), 5)
        assert second.refusals == ["samples"]
        assert nodes.record.aggregated == (0, 1)
        assert nodes.deployment.cloud.delivered[0].ues == [0]
        assert refused(nodes.deployment.cloud.hub) == {}


BAD_UPDATES = {
    "undefined numbers": ("nonfinite", np.nan, {}),
    "undefined seconds": ("nonfinite", 0.0, {"took_s": [0.1, float("nan")]}),
    "infinite seconds": ("nonfinite", 0.0, {"took_s": [float("inf"), 0.1]}),
    "negative seconds": ("nonfinite", 0.0, {"took_s": [0.1, -1e300]}),
    "seconds of others": ("shape", 0.0, {"took_s": [0.1, 0.1, 0.1]}),
    "UEs of others": ("identity", 0.0, {"ue": [0, 2]}),
    "other samples": ("samples", 0.0, {"num_samples": 16}),
}


@pytest.mark.parametrize("what", BAD_UPDATES)
def test_nobody_waits_for_an_edges_update_that_was_refused(cloud, what):
    code, value, head = BAD_UPDATES[what]
    cloud.deployment.executor.settings.timing.deadline_slack_s = 20.0

    async def work(mallory):
        await mallory.announce(await mallory.given())
        tag, _ = await mallory.next("order")
        update = np.full(mallory.spec.length, value, np.float32)
        said = {"num_samples": 14, "ue": [0, 1], "took_s": [0.1, 0.1], **head}
        await mallory.send(*mallory.update(tag.by(mallory.name), update, **said))
        await mallory.next("refusal")
        return mallory.refusals

    assert attempt(cloud, work) == [code]
    assert cloud.record.aggregated == (1,)
    assert cloud.deployment.executor.timings[-1].measured_s < 20.0


def test_a_flood_of_requests_has_one_answer_on_its_way(cloud):
    mallory, metrics = MalloryEdge(cloud), cloud.deployment.cloud.metrics
    request = encode(Tag(run="run-1", node=mallory.name), request=pb.Request())

    async def work():
        await mallory.open()
        await mallory.hello()
        await mallory.next("welcome")
        before = metrics.received._value.get()
        await mallory.send(*[request] * 300)
        async with asyncio.timeout(10):
            while metrics.received._value.get() < before + 300 * len(request):
                await asyncio.sleep(0.02)
        on_their_way = len(cloud.deployment.cloud.hub._tasks)
        _, answer = await mallory.next("vector")
        assert answer.begin.purpose == pb.GLOBAL
        return on_their_way

    assert cloud.loop.run(work(), 20) <= 3
    cloud.loop.run(mallory.close(), 5)


def test_a_visitor_cannot_speak_for_the_ue_that_trains(certificates):
    shape = ("network.edges=1", "planning.max_edges=1")
    with Nodes(certificates, *shape, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        ues = nodes.start_edge(0).ues.side
        nodes.start_ue(0)
        mallory = Mallory(nodes, 1)

        async def work():
            await mallory.open()
            await mallory.hello(visitor=True)
            await mallory.next("welcome")
            while ues.gathering.tag is None:
                await asyncio.sleep(0.02)
            await mallory.sketch(ues.gathering.tag)
            await mallory.next("refusal")

        acting = nodes.loop.start(work())
        nodes.play(1)
        acting.result(10)
        nodes.loop.run(mallory.close(), 5)
        assert mallory.refusals == ["unexpected"]
        assert nodes.deployment.cloud.delivered[0].ues == [0]


def test_a_visitor_that_leaves_is_forgotten_and_takes_nobody_with_it(certificates):
    with Nodes(certificates, tiny=True) as nodes:
        ues = nodes.start_edge(0, cloud_port=1).ues  # no cloud: nobody answers
        nodes.start_ue(1)
        until(lambda: 1 in ues.hub.children)
        mallory = Mallory(nodes, 1)

        async def work():
            await mallory.open()
            await mallory.hello(visitor=True)
            await mallory.next("welcome")

        nodes.loop.run(work(), 10)
        until(lambda: len(ues.ways.visitors) == 1)
        nodes.loop.run(mallory.close(), 5)
        until(lambda: not ues.ways.visitors, 5.0)
        assert 1 in ues.hub.children
