"""What UEs declare of themselves, seconds, samples and losses, and how far their parents go by it."""

import numpy as np
import pytest
from deployment_nodes import Nodes, Tiny, refused, until
from mallory import Mallory
from test_misleading import told

import hpfl
from hpfl.config import resolve
from hpfl.data.sources import load_dataset
from hpfl.dealing import deal, most_dealt
from hpfl.deployment.learnt_seconds import LearntSeconds
from hpfl.deployment.loss_bound import LossBound
from hpfl.rng import Streams

THREE = ("network.edges=1", "network.ues_per_edge=3", "planning.max_edges=1")
QUICK = {"gather_s": 5.0, "compute_s": 8.0, "deadline_slack_s": 2.0}
DELAY_S = 0.2


def claiming(ue, took_s):
    """A UE that says of every sketch that computing it took so long."""
    honest = ue.sketched

    async def sketched(tag, vector):
        message = await honest(tag, vector)
        message.took_s = took_s
        return message

    ue.sketched = sketched


@pytest.mark.parametrize("paced", [False, True])
@pytest.mark.parametrize("claimed_s", [0.0, 1e6])
def test_what_a_ue_says_of_its_seconds_does_not_move_the_plan(certificates, claimed_s, paced):
    observed = []
    with Nodes(certificates, *THREE, "planning.importance=sketch", tiny=True, timing=QUICK, paced=paced) as nodes:
        executor = nodes.start_cloud().executor
        side = nodes.start_edge(0).ues.side
        for ue in range(3):
            claiming(nodes.start_ue(ue), claimed_s if ue == 1 else DELAY_S)
            nodes.learners[ue].delay_s = DELAY_S
        seen, observe = [], executor.observe
        executor.observe = lambda state: seen.append(observe(state)) or seen[-1]
        nodes.play(3, watch=lambda state, record: observed.append(side.learnt.of(1, claimed_s=0.0)) or True)
        honest_s = side.learnt.of(0, claimed_s=0.0)
    assert honest_s > 0.5 * DELAY_S
    assert all(0.5 * DELAY_S < learnt_s < honest_s + 2.0 for learnt_s in observed)
    assert all(0.5 * DELAY_S < one.renewal_s[0] < 5.0 for one in seen)


def test_seconds_are_those_of_the_answers_less_those_of_the_way():
    learnt = LearntSeconds()
    assert learnt.of(0, claimed_s=7.0) == 7.0
    assert learnt.of(0, claimed_s=1e6) == 120.0
    for took_s in (9.0, 2.0, 2.0, 2.0):
        learnt.heard(0, took_s, claimed_s=1.5)
    assert learnt.of(0, claimed_s=0.0) == 2.0  # of one alone nobody knows what the way takes
    learnt.heard(1, 4.0, claimed_s=3.5)
    learnt.heard(2, 4.0, claimed_s=0.0)
    assert [learnt.of(ue, claimed_s=1e6) for ue in range(3)] == [1.5, 3.5, 3.5]
    assert learnt.of(3, claimed_s=1e6) == 4.0
    learnt.forget(0)
    assert learnt.of(0, claimed_s=1.0) == 1.0


def test_one_liar_of_four_cannot_say_how_long_the_way_takes():
    for lie in (0.0, 1e6):
        learnt = LearntSeconds()
        for _ in range(3):
            for ue in range(4):
                learnt.heard(ue, 2.5, claimed_s=lie if ue == 3 else 2.0)
        assert [learnt.of(ue, claimed_s=lie) for ue in range(4)] == [2.0] * 4


def test_more_samples_than_the_experiment_deals_are_refused_at_the_greeting(certificates):
    with Nodes(certificates, *THREE, tiny=True) as nodes:
        nodes.start_edge(0, cloud_port=1)
        for declared in (16, 10**7):
            reason = told(nodes, Mallory(nodes, 1), num_samples=declared)
            assert reason.startswith(f"samples: ue-1 declares {declared} samples, wanted 1 to 15: the most that")
        assert told(nodes, Mallory(nodes, 1), num_samples=0).startswith("samples: ue-1 declares 0 samples")
        nodes.start_ue(1, learner=Tiny(1, nodes.experiment.spec.length, 15))
        until(lambda: 1 in nodes.edges[0].ues.hub.children)
    with Nodes(certificates, *THREE, tiny=True, limits={"num_samples": 500}) as nodes:
        nodes.start_edge(0, cloud_port=1)
        assert "declares 501 samples, wanted 1 to 500" in told(nodes, Mallory(nodes, 1), num_samples=501)
        nodes.start_ue(1, learner=Tiny(1, nodes.experiment.spec.length, 500))
        until(lambda: 1 in nodes.edges[0].ues.hub.children)


@pytest.mark.parametrize(
    ("change", "most"),
    [("data.samples_per_ue=40", 40), ("data.samples_per_ue=[20, 60.9]", 61), ("data.partitioner=iid", 60)],
)
def test_no_ue_is_dealt_more_than_the_bound(change, most):
    config = resolve(hpfl.load("quickstart", overrides=[change]))
    dealt = deal(config, load_dataset(config.data.dataset), Streams(config.training.seed))
    assert dealt.shards.sizes.max() <= most_dealt(config) == most


def test_one_ues_loss_of_1e30_is_refused_and_touches_no_mean(certificates, caplog):
    class Boasting(Tiny):
        def evaluate(self, params):
            return np.array([1e30, 0.5, 0.75, 0.25, 0.6, 1.1])

    with Nodes(certificates, *THREE, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        side = nodes.start_edge(0).ues.side
        for ue in range(3):
            nodes.start_ue(ue, learner=(Boasting if ue == 1 else Tiny)(ue, nodes.experiment.spec.length))
        nodes.play(1)
        caplog.set_level("WARNING")
        found = nodes.deployment.executor.evaluate(nodes.state.params, nodes.state.round)
        assert found["loss"] == 1.0
        assert refused(side.hub)["range"] == 1.0
        assert nodes.deployment.executor.figures.keys() == {0, 2}
    assert any("figures refused" in line.message for line in caplog.records)


def test_losses_are_bounded_by_what_most_ues_report_now_or_reported_before():
    bound = LossBound(("loss", "accuracy"), [(0.0, np.inf), (0.0, 1.0)], 100.0)

    def believed(*losses):
        return list(bound.believed({ue: np.array([loss, 0.5]) for ue, loss in enumerate(losses)}))

    assert believed(1e30, 2.0) == [0, 1]  # of two nobody knows which one lies
    assert believed(2.3, 2.0, 229.0) == [0, 1, 2]
    assert believed(1e-4, 1e-4, 5.0) == [0, 1, 2]  # a model that suits nearly all
    assert believed(1e-4, 1e-4, 1e30) == [0, 1]
    assert believed(1e30, 2e30, 3e30) == [0, 1, 2]  # where all have diverged, nobody lies
    assert list(LossBound(("loss",), [(-np.inf, np.inf)], 100.0).believed(rows(-1.0, -2.0, -1e30))) == [0, 1]
    assert list(LossBound(("loss",), [(0.0, np.inf)], 0.0).believed(rows(1.0, 2.0, 1e30))) == [0, 1, 2]
    assert list(LossBound(("loss",), [(0.0, np.inf)], 100.0).believed(rows(np.nan, np.nan, 1.0))) == [0, 1, 2]


def rows(*losses):
    return {ue: np.array([loss]) for ue, loss in enumerate(losses)}
