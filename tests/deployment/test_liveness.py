"""One child that is mute, withholds, trickles or drags is left out, rounds go on without it, and it is let in again."""

import pytest
from deployment_nodes import Nodes, Tiny, until
from laggards import with_laggard

from hpfl.deployment.status import Board

NINE = ("training.rounds=100000", "network.edges=3", "network.ues_per_edge=3", "planning.max_edges=3")
QUICKLY = {"gather_s": 0.5, "least_wait_s": 0.15}


def misses(side):
    return side.metrics.misses._value.get()


def shown_states(cloud):
    board = Board(cloud, edges={f"edge-{edge}": edge for edge in range(3)}, num_ues=9)
    return {row.node: row.state for row in board.rows()}


@pytest.mark.parametrize("how", ["mute", "withholds", "trickles"])
def test_a_ue_that_does_not_deliver_is_left_out_after_two_rounds_and_its_edge_is_not(certificates, how):
    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        laggard = with_laggard(nodes, how)
        nodes.play(3)  # the third goes on without it
        side, cloud = nodes.edges[2].ues.side, nodes.deployment.cloud
        assert 8 in side.attendance.left_out()
        assert misses(side) >= 2
        assert side.metrics.left_out._value.get() >= 1
        # a busy machine may make its edge late as well, which comes back after ten times what that cost
        nodes.play(8000, watch=lambda state, record: (record.num_participants, record.aggregated) != (8, (0, 1, 2)))
        assert nodes.record.num_participants == 8
        nodes.play(200, watch=lambda state, record: shown_states(cloud)["ue-8"] != "left out")
        assert shown_states(cloud)["ue-8"] == "left out"  # as its edge has told
        before = len(laggard.asked)
        nodes.play(3)
        assert len(laggard.asked) < before + 6  # it is not asked every round, at most probed meanwhile
        assert cloud.state_of(2) != "left out"
        laggard.stop()


@pytest.mark.parametrize(("how", "question"), [("flaps", "sketch"), ("flees", "update")])
def test_a_ue_that_comes_and_goes_is_left_out_like_one_that_stays_and_is_mute(certificates, lines, how, question):
    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        laggard = with_laggard(nodes, how, delay_s=0.05)
        attendance = nodes.edges[2].ues.side.attendance
        nodes.play(100, watch=lambda state, record: 8 not in attendance.left_out())
        assert 8 in attendance.left_out()
        assert nodes.edges[2].ues.side.metrics.left_out._value.get() == 1
        assert any(line["why"] == f"it left before its {question} came" for line in lines("child left out"))
        nodes.play(5)
        assert nodes.record.num_participants == 8
        assert nodes.record.aggregated == (0, 1, 2)
        assert not nodes.deployment.cloud._side.attendance.left_out()
        laggard.stop()


@pytest.mark.parametrize(("how", "why"), [("junk", "no sketch came"), ("declines", "declines to send it")])
def test_a_ue_that_answers_and_gives_nothing_is_left_out_like_one_that_is_mute(certificates, lines, how, why):
    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        laggard = with_laggard(nodes, how)
        attendance = nodes.edges[2].ues.side.attendance
        nodes.play(100, watch=lambda state, record: 8 not in attendance.left_out())
        assert 8 in attendance.left_out()
        assert any(why in line["why"] for line in lines("child left out"))
        # a busy machine may make others late as well, which then come back
        nodes.play(8000, watch=lambda state, record: (record.num_participants, record.aggregated) != (8, (0, 1, 2)))
        assert nodes.record.num_participants == 8
        laggard.stop()


def test_an_edge_that_says_again_and_again_that_ues_have_come_is_left_out(certificates, lines):
    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        laggard = with_laggard(nodes, "renews")
        attendance = nodes.deployment.cloud._side.attendance
        nodes.play(100, watch=lambda state, record: 2 not in attendance.left_out())
        assert 2 in attendance.left_out()
        why = lines("child left out")[0]["why"]
        assert "UEs had come" in why or "no sketch came" in why  # which of the two it said last when the wait ended
        nodes.play(8000, watch=lambda state, record: record.aggregated != (0, 1))
        assert nodes.deployment.cloud.state_of(2) == "left out"
        laggard.stop()


@pytest.mark.slow
def test_a_ue_that_drags_every_round_is_left_out_before_its_edge_is(certificates):
    with Nodes(certificates, *NINE, tiny=True, timing={**QUICKLY, "least_wait_s": 3.0}) as nodes:
        laggard = with_laggard(nodes, "drags", delay_s=1.5)
        nodes.play(6)
        assert nodes.edges[2].ues.side.attendance.left_out() == {8}
        assert nodes.record.num_participants == 8
        assert nodes.record.aggregated == (0, 1, 2)
        laggard.stop()


def test_a_ue_that_does_not_evaluate_is_waited_for_no_more_and_still_trains(certificates):
    with Nodes(certificates, *NINE, "evaluation.every=1", tiny=True, timing=QUICKLY) as nodes:
        laggard = with_laggard(nodes, "blind")
        nodes.play(4)
        attendance = nodes.edges[2].ues.side.attendance
        assert attendance.is_left_out(8, "figures")
        assert nodes.record.num_participants == 9
        laggard.stop()


def test_an_edge_without_ues_says_so_and_nobody_waits_for_it(certificates):
    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        with_laggard(nodes, "dead")
        nodes.play(5)
        cloud = nodes.deployment.cloud
        assert cloud.state_of(2) == "without UEs"
        assert misses(cloud._side) == 0
        for ue in (6, 7, 8):
            nodes.start_ue(ue)
        nodes.play(8000, watch=lambda state, record: record.num_participants < 9)
        assert nodes.record.aggregated == (0, 1, 2)


@pytest.mark.slow
def test_a_ue_that_hung_for_a_while_is_let_in_again_when_it_answers(certificates):
    class Hanging(Tiny):
        hangs = False

        def update(self, params, **at):
            if self.hangs:
                until(lambda: not self.hangs)
            return super().update(params, **at)

    with Nodes(certificates, *NINE, tiny=True, timing=QUICKLY) as nodes:
        nodes.start_cloud()
        for edge in range(3):
            nodes.start_edge(edge)
        hanging = Hanging(8, nodes.experiment)
        for ue in range(9):
            nodes.start_ue(ue, learner=hanging if ue == 8 else None)
        nodes.play(3)
        hanging.hangs = True
        attendance = nodes.edges[2].ues.side.attendance
        nodes.play(50, watch=lambda state, record: not attendance.left_out())
        assert attendance.left_out() == {8}
        hanging.hangs = False
        nodes.play(20000, watch=lambda state, record: record.num_participants < 9)
        assert nodes.record.num_participants == 9
        assert attendance.left_out() == set()


def test_where_everybody_gets_slow_nobody_is_left_out(certificates):
    with Nodes(certificates, *NINE, tiny=True, timing={**QUICKLY, "least_wait_s": 0.5}) as nodes:
        nodes.start_all()
        nodes.play(3)
        for learner in nodes.learners.values():
            learner.delay_s = 0.7
        nodes.play(3)
        sides = [nodes.deployment.cloud._side, *(edge.ues.side for edge in nodes.edges.values())]
        assert all(not side.attendance.left_out() for side in sides)


def test_a_cloud_that_is_killed_again_and_again_makes_progress_though_an_edge_is_away(certificates):
    timing = {"gather_s": 600.0, "compute_s": 600.0, "settle_s": 0.2, "least_wait_s": 0.5}
    with Nodes(certificates, *NINE, "planning.planner=fastest", tiny=True, timing=timing) as nodes:
        nodes.start_all()
        nodes.play(2)
        nodes.kill("edge-2")
        for life in range(3):
            nodes.stop_cloud()
            nodes.start_cloud(state=nodes.state, port=nodes.cloud_port)
            nodes.play(1)
            assert nodes.state.round == 3 + life
            assert nodes.record.num_participants in {3, 6}
