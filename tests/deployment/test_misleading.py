"""Peers with valid certificates that mislead: with sketches, norms, sample counts, seconds, figures and greetings."""

import asyncio
from dataclasses import replace

import grpc
import numpy as np
import pytest
from deployment_nodes import Nodes, Tiny, refused, until
from mallory import Mallory
from test_peer_claims import MalloryEdge

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.counted_samples import counted
from hpfl.deployment.greeting import Shapes
from hpfl.deployment.wire import Tag, encode, numbers
from hpfl.training.norm_bound import NormBound, scale_of

THREE = ("network.edges=1", "network.ues_per_edge=3", "planning.max_edges=1")
QUICK = {"gather_s": 5.0, "compute_s": 8.0, "deadline_slack_s": 2.0}
HUGE = np.full(64, 0.999e6)


class Lying:
    """A learner that turns its update, or its sketch, into something else."""

    def __init__(self, honest, *, update=lambda update: update, sketch=lambda sketch: sketch):
        self._honest, self._update, self._sketch = honest, update, sketch

    def __getattr__(self, name):
        return getattr(self._honest, name)

    def update(self, params, **when):
        return self._update(self._honest.update(params, **when))

    def sketch(self, update):
        return self._sketch(self._honest.sketch(update))


def flipped(update):
    return (-update * (999.0 / np.linalg.norm(update))).astype(update.dtype)


def lies(hub):
    """Refusals by rule, but for answers that were given twice."""
    return {code: count for code, count in refused(hub).items() if code != "repeated"}


def started(nodes, liar, **lies):
    """A cloud, an edge and three UEs, of which one lies."""
    nodes.start_cloud()
    nodes.start_edge(0)
    for ue in range(3):
        honest = Tiny(ue, nodes.experiment.spec.length)
        honest.sketches = nodes.experiment.sketches
        nodes.start_ue(ue, learner=Lying(honest, **lies) if ue == liar else honest)
    return nodes.edges[0].ues.side


SKETCHES = {
    "of another update": ("sketch", lambda sketch: 1.1 * sketch),
    "a little off": ("sketch", lambda sketch: sketch + 1e-3 * np.linalg.norm(sketch)),
    "scaled down, and called for it": ("sketch", lambda sketch: 10.0 * sketch),
    "larger than that of any update": ("norm", lambda _: HUGE),
}


@pytest.mark.parametrize("what", SKETCHES)
def test_a_sketch_that_is_not_of_the_update_is_refused_and_its_author_left_out(certificates, what):
    code, lie = SKETCHES[what]
    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        side = started(nodes, 1, sketch=lie)
        nodes.play(2)
        assert lies(side.hub) == {code: 1.0}
        assert nodes.deployment.cloud.delivered[0].ues == [0, 2]
        assert side.attendance.left_out() == {1}


def test_a_sketch_far_above_those_of_the_round_leads_no_plan(certificates):
    """It is below what an update within the limit could have: nobody can refuse it before the update comes."""
    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        side = started(nodes, 1, sketch=lambda sketch: 1e3 * sketch)
        nodes.play(2)
        (announced,) = nodes.deployment.cloud._ways._planned.values()
        assert announced.sketch.ues.tolist() == [0, 2]
        assert side.attendance.left_out() == set()


def test_an_outlier_is_scaled_down_to_the_bound_and_still_counts(certificates):
    """Their norms are as 10 : 88 : 12, and four times the median is 48."""
    means = {}
    for factor in (1.0, 8.0):
        with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
            side = started(nodes, 1, update=lambda update, by=factor: (by * update).astype(update.dtype))
            nodes.play(1)
            assert lies(side.hub) == {}
            assert nodes.deployment.cloud.delivered[0].ues == [0, 1, 2]
            means[factor] = nodes.deployment.cloud.delivered[0].update
    np.testing.assert_allclose(means[8.0] / means[1.0], (0.10 + 4 * 0.12 + 0.12) / 0.33, rtol=1e-5)


@pytest.mark.parametrize("hides", [False, True])
def test_a_sign_flip_at_norm_999_never_touches_the_mean(certificates, hides):
    """Announced as it is, it is far above the others; announced as theirs, its sketch is not its own."""
    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        honest = {"sketch": lambda sketch: sketch / 999.0} if hides else {}
        side = started(nodes, 1, update=flipped, **honest)
        nodes.play(2)
        assert nodes.deployment.cloud.delivered[0].ues == [0, 2]
        assert lies(side.hub) == ({"sketch": 1.0} if hides else {})


def test_an_update_that_sketches_cannot_see_is_refused_by_its_norm(certificates):
    """The projection is no secret: what it maps to nothing can be added to an update unseen."""
    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        check = nodes.experiment.sketches
        first, second = np.flatnonzero(check.place == 0)[:2]

        def unseen(update):
            update = update.copy()
            update[first] += np.float32(512.0 * check.sign[first])
            update[second] -= np.float32(512.0 * check.sign[second])
            return update

        side = started(nodes, 1, update=unseen)
        nodes.play(1)
        assert lies(side.hub) == {"norm": 1.0}
        assert nodes.deployment.cloud.delivered[0].ues == [0, 2]


def test_an_edge_whose_update_is_not_the_one_announced_is_refused(certificates):
    with Nodes(certificates, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(1)
        nodes.start_ue(2)
        nodes.start_ue(3)
        nodes.edge_ports[0] = nodes.cloud_port
        mallory = MalloryEdge(nodes)

        async def work():
            await mallory.announce(await mallory.given())
            tag, _ = await mallory.next("order")
            said = {"num_samples": 14, "ue": [0, 1], "took_s": [0.1, 0.1]}
            update = np.full(mallory.spec.length, 1e-3, np.float32)
            await mallory.send(*mallory.update(tag.by(mallory.name), update, **said))
            await mallory.next("refusal")

        acting = nodes.loop.start(work())
        nodes.play(1)
        acting.result(20)
        nodes.loop.run(mallory.close(), 5)
        assert mallory.refusals == ["sketch"]
        assert nodes.record.aggregated == (1,)


def test_ten_million_samples_that_are_not_there_are_at_most_half_of_the_mean(certificates):
    weighed = (*THREE, "training.weighting=samples")
    with Nodes(certificates, *weighed, tiny=True, timing=QUICK, limits={"num_samples": 10_000_000}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        for ue in range(3):
            declared = 10_000_000 if ue == 1 else 7
            nodes.start_ue(ue, learner=Tiny(ue, nodes.experiment.spec.length, declared))
        before = nodes.state.params.numpy()
        nodes.play(1)
        came = nodes.deployment.cloud.delivered[0]
        assert came.weight == 28.0
        wanted = (7 * 0.10 + 14 * 0.11 + 7 * 0.12) / 28
        np.testing.assert_allclose(came.update, before * wanted, rtol=1e-5)
        assert nodes.deployment.executor.timings[-1].planned_s < 60.0


@pytest.mark.parametrize(
    ("samples", "wanted"),
    [
        ([7, 7, 7], [7, 7, 7]),
        ([5, 15], [5, 15]),
        ([10**7, 7, 7], [14, 7, 7]),
        ([10**7, 10**7, 7, 7, 7], [21, 21, 7, 7, 7]),
        ([10**7, 7], [140, 7]),
        ([10**7], [10**7]),
    ],
)
def test_no_ue_counts_for_more_than_its_share(samples, wanted):
    share = 1 / 3 if len(samples) == 5 else 0.5
    assert counted(np.array(samples), share=share, ratio=20.0).tolist() == wanted


def test_a_bound_is_set_by_most_children_and_by_nobody_alone():
    bound = NormBound(4.0)
    assert bound.among([1.0, 999.0]) == np.inf
    assert bound.among([1.0, 1.1, 999.0]) == pytest.approx(4.4)
    for norm in (1.0, 1.0, 1.0):
        bound.accepted(norm)
    assert bound.among([999.0]) == 4.0
    assert bound.among([10.0, 11.0, 12.0]) == 44.0
    assert NormBound(0.0).among([1.0, 1.1, 999.0]) == np.inf
    assert (scale_of(4.0, 4.0), scale_of(8.0, 4.0), scale_of(17.0, 4.0)) == (1.0, 0.5, 0.0)


def test_seconds_that_a_ue_claims_are_no_more_than_it_had(certificates):
    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        side = nodes.start_edge(0).ues.side
        nodes.start_ue(0)
        nodes.start_ue(2)
        mallory = Mallory(nodes, 1)

        async def work():
            await mallory.open()
            await mallory.hello()
            tag, _ = await mallory.next("vector")
            message = pb.Sketch(values=numbers(np.zeros(64)), weight=1.0, num_samples=7, took_s=1e9)
            await mallory.call.write(encode(tag.by(mallory.name), sketch=message))
            while 1 not in side.gathering.held:
                await asyncio.sleep(0.01)
            return side.gathering.held[1].sketch.took_s

        acting = nodes.loop.start(work())
        nodes.play(1)
        assert acting.result(20) < 60.0
        nodes.loop.run(mallory.close(), 5)


def test_an_accuracy_above_one_is_refused_and_touches_no_mean(certificates):
    class Boasting(Tiny):
        def evaluate(self, params):
            return np.array([1.0, 0.5, 1e9, 0.25, 0.6, 1.1])

    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        side = nodes.start_edge(0).ues.side
        for ue in range(3):
            nodes.start_ue(ue, learner=(Boasting if ue == 1 else Tiny)(ue, nodes.experiment.spec.length))
        nodes.play(1)
        found = nodes.deployment.executor.evaluate(nodes.state.params, nodes.state.round)
        assert found["personalised_accuracy"] == 0.75
        assert lies(side.hub) == {"range": 1.0}


def told(nodes, mallory, **hello):
    """The reason for which a greeting is refused."""

    async def work():
        await mallory.open()
        await mallory.hello(**hello)
        await mallory.next("welcome", within_s=5.0)

    with pytest.raises((grpc.aio.AioRpcError, ConnectionError, asyncio.InvalidStateError, grpc.aio.UsageError)):
        nodes.loop.run(work(), 10)
    reason = nodes.loop.run(mallory.call.details(), 5)
    nodes.loop.run(mallory.close(), 5)
    return reason


def test_a_mistake_in_a_childs_file_is_refused_at_its_greeting_and_named(certificates):
    with Nodes(certificates, *THREE, tiny=True) as nodes:
        nodes.start_edge(0, cloud_port=1)
        number = told(nodes, Mallory(nodes, 1), number=2)
        assert number == "configuration: number is 2 at ue-1, 1 here"
        outputs = told(nodes, Mallory(nodes, 1), number=1, num_outputs=4)
        assert outputs == "configuration: num_outputs is 4 at ue-1, 10 here"
        shape = told(nodes, Mallory(nodes, 1), number=1, input_shape=[3])
        assert shape.startswith("configuration: input_shape is [3] at ue-1, [")
        model = told(nodes, Mallory(nodes, 1), number=1, parameters=b"another model...")
        assert model == "configuration: learning.model makes other parameters at ue-1 than here"
        nodes.start_ue(1)
        until(lambda: 1 in nodes.edges[0].ues.hub.children)


def test_the_keys_in_which_two_experiments_differ_are_named(certificates):
    with Nodes(certificates, *THREE, tiny=True) as nodes:
        nodes.start_edge(0, cloud_port=1)
        with Nodes(certificates, *THREE, "training.seed=7", "learning.inner_lr=0.5", tiny=True) as other:
            said = other.experiment.shapes.hello(number=1)
        mallory = Mallory(nodes, 1, fingerprint=said.fingerprint)
        reason = told(nodes, mallory, number=1, key=list(said.key), key_hash=said.key_hash)
        assert reason == (
            "configuration: ue-1 runs another experiment: learning.inner_lr, training.seed differ from here"
        )
        unnamed = told(nodes, Mallory(nodes, 1, fingerprint="x"), key=["a"], key_hash=b"1")
        assert unnamed == f"configuration: ue-1 runs configuration 'x', here it is {nodes.experiment.fingerprint!r}"


def test_a_greeting_is_small(certificates):
    with Nodes(certificates, *THREE, tiny=True) as nodes:
        shapes = nodes.experiment.shapes
        assert isinstance(shapes, Shapes)
        assert len(encode(Tag(node="ue-1"), hello=shapes.hello(number=1))) < 16_000
        assert replace(shapes, fingerprint="x").hello(number=0).HasField("number")


def accuracy_of_others(certificates, planner, liar=None, **lies):
    """Mean personalised accuracy of the eight UEs that never lie, after a hundred rounds with 3 edges and 9 UEs."""
    shape = ["network.edges=3", "network.ues_per_edge=3", "data.samples_per_ue=[20, 60]", "evaluation.test_samples=40"]
    plan = [f"planning.planner={planner}", f"planning.max_edges={3 if planner == 'full' else 2}", "training.rounds=100"]
    with Nodes(certificates, *shape, *plan, "evaluation.every=1000") as nodes:
        nodes.start_cloud()
        for edge in range(3):
            nodes.start_edge(edge)
        for ue in range(9):
            honest = nodes.learner(ue, nodes.experiment)
            nodes.start_ue(ue, learner=Lying(honest, **lies) if ue == liar else honest)
        nodes.play()
        nodes.deployment.executor.evaluate(nodes.state.params, nodes.state.round)
        figures = nodes.deployment.executor.evaluation()["personalised_accuracy"]
    return float(np.delete(figures, 4).mean())


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["fastest", "joint", "paper"])
def test_a_ue_that_lies_in_its_sketch_costs_the_others_no_accuracy(certificates, planner):
    honest = accuracy_of_others(certificates, planner)
    assert accuracy_of_others(certificates, planner, 4, sketch=lambda _: HUGE) > honest - 0.03
    assert accuracy_of_others(certificates, planner, 4, sketch=lambda sketch: 10.0 * sketch) > honest - 0.03


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["full", "fastest"])
def test_a_sign_flip_at_norm_999_ends_above_ninety_per_cent(certificates, planner):
    assert accuracy_of_others(certificates, planner, 4, update=flipped) > 0.9
    assert accuracy_of_others(certificates, planner, 4, update=flipped, sketch=lambda sketch: sketch / 999.0) > 0.9
