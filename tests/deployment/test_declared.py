"""What UEs declare of themselves, seconds, samples and losses, and how far their parents go by it."""

import pytest
from deployment_nodes import Nodes

from hpfl.deployment.learnt_seconds import LearntSeconds

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
    assert 0.5 * DELAY_S < honest_s
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
