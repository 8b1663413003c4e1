"""Deployed secure sums of other UEs than were there before: what leaks, what is refused, and who is blamed."""

import asyncio
import threading

import numpy as np
import pytest
from deployment_nodes import Nodes, until
from test_secure_attacks import CELL, Killer, is_mean_of, outcomes, play_until_all_are_in, successes

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.deliveries import NobodyError
from hpfl.deployment.edge_ues import EdgeUes
from hpfl.deployment.secure_cell import SecureCell
from hpfl.deployment.secure_format import CellAgreed
from hpfl.deployment.secure_member import SecureMember, _Session
from hpfl.deployment.secure_sums import SecureSums
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.ue import Ue
from hpfl.deployment.wire import Tag
from hpfl.secrecy import Collector, SecrecyError

WAITS = "waits for those who were in the sum, or for another model"


@pytest.fixture
def nodes(certificates, request):
    with Nodes(certificates, *CELL, *getattr(request, "param", []), tiny=True, timing={"least_wait_s": 2.0}) as made:
        made.start_all()
        yield made


refusing = pytest.mark.parametrize("nodes", [["secure.leavers=refused"]], indirect=True)


def seen_sums(monkeypatch):
    """The sums that an edge has learnt, from now on: the mean of sketches and of whom, that of updates and of whom."""
    seen, plain = [], SecureSums.summed

    async def summed(sums, tag, announced):
        found = await plain(sums, tag, announced)
        seen.append((sums.sketch.copy(), set(sums._sketched), sums.mean.copy(), found))
        return found

    monkeypatch.setattr(SecureSums, "summed", summed)
    return seen


def killed_between(nodes, killer):
    """Play a round in which UE 3 is killed between its sketch and its update; the models before and after."""
    before = play_until_all_are_in(nodes)
    killer.kill({3}, (pb.MASKED, "update"))
    while not killer.dead:
        known, (after,) = before, nodes.play(1)
        before = after if not killer.dead else known
    return before, after


def test_where_leavers_are_tolerated_the_sums_tell_the_sketch_of_one_that_leaves(nodes, monkeypatch):
    killer, seen = Killer(monkeypatch, nodes), seen_sums(monkeypatch)
    before, after = killed_between(nodes, killer)
    assert is_mean_of(nodes, [0, 1, 2], before, after)
    sketch, sketched, mean, summed = seen[-1]
    assert (sketched, summed) == ({0, 1, 2, 3}, {0, 1, 2})
    leaks = 4 * sketch - 3 * nodes.experiment.sketches.sketch(mean)
    own = nodes.experiment.sketches.sketch((before * 0.13).numpy())
    assert np.linalg.norm(leaks - own) <= 1e-3 * np.linalg.norm(own)


@refusing
@pytest.mark.parametrize("edge", ["keeps to it", "asks all the same"])
def test_where_leavers_are_refused_nothing_of_the_updates_is_uncovered(nodes, monkeypatch, lines, edge):
    killer = Killer(monkeypatch, nodes)
    if edge == "asks all the same":
        plain = SecureCell.summed
        monkeypatch.setattr(SecureCell, "summed", lambda cell, name, *, limit_s, only_of=None: plain(
            cell, name, limit_s=limit_s
        ))  # fmt: skip
    play_until_all_are_in(nodes)
    revealed, voted = successes(monkeypatch, "reveal"), successes(monkeypatch, "vote")
    killer.kill({3}, (pb.MASKED, "update"))
    while not killer.dead:
        revealed.clear(), voted.clear()
        nodes.play(1)
    assert "update" not in {of for _, of in [*revealed, *voted]}
    assert not nodes.deployment.cloud.delivered
    if edge == "keeps to it":
        assert outcomes(nodes)["left between"] == 1
        assert "UEs [3] left between" in lines("no secure sum")[-1]["reason"]
    else:
        assert (
            "the sketch or the update was summed before with others" in lines("sits out of a secure sum")[-1]["reason"]
        )
    killer.revive()
    before = play_until_all_are_in(nodes)
    (after,) = nodes.play(1)
    assert is_mean_of(nodes, range(4), before, after)


def test_who_complains_alone_has_nobody_struck_and_both_are_in_trouble(nodes, monkeypatch):
    play_until_all_are_in(nodes)
    nodes.kill("ue-2")
    say, attendance = SecureMember._say, nodes.edges[0].ues.side.attendance
    struck, missed = [], []
    monkeypatch.setattr(attendance, "strike", lambda number, why: struck.append((number, why)))
    note = attendance.missed

    def noted(number, why, *rest, **more):
        missed.append((number, why))
        note(number, why, *rest, **more)

    async def said(member, session, kind, entries, *, of=""):
        if member._number == 3 and (kind, of) == (pb.MASKED, "sketch"):
            await say(member, session, pb.COMPLAINT, {0: b""})
        await say(member, session, kind, entries, of=of)

    monkeypatch.setattr(attendance, "missed", noted)
    with monkeypatch.context() as lying:
        lying.setattr(SecureMember, "_say", said)
        until(lambda: attendance.left_out() == {0, 3})
    assert struck == []
    assert outcomes(nodes)["disputed"] == 2
    in_dispute = [number for number, why in missed if "cannot open the shares" in why]
    assert sorted(in_dispute) == [0, 0, 3, 3]


def test_who_waits_for_a_session_that_ends_waits_no_more(nodes):
    member, tag = nodes.ues[0]._secure, Tag(run="run-1", base_round=999, base=b"\x07" * 32)

    async def ended():
        session = member._session = _Session(tag, b"a" * 16, CellAgreed(0), None)
        waiting = asyncio.create_task(member.masked_update(tag))
        await asyncio.sleep(0)
        assert not waiting.done()
        member.end_session()
        assert session.over
        return await asyncio.wait_for(waiting, 5)

    assert nodes.loop.run(ended(), 10) is None


def test_names_that_say_no_number_are_refused_by_ue_and_edge(nodes):
    own = nodes.ue_settings(1)
    own.name = "anna"
    with pytest.raises(SettingsError, match=r"UE 1 is called 'anna'.*wanted 'ue-1'"):
        Ue(own, nodes.experiment, nodes.learners[1])
    edge = nodes.edge_settings(0)
    edge.ues = ["ue-0", "anna", "ue-2", "ue-3"]
    with pytest.raises(SettingsError, match=r"UE 1 is called 'anna'.*wanted 'ue-1'"):
        EdgeUes(edge, nodes.experiment)


def test_nobody_waits_for_what_a_ue_computes_that_has_fallen_out_of_the_sum(nodes, monkeypatch):
    """It is attached and computes, and may take part in the next session."""
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)
    attendance, missed, say, made = nodes.edges[0].ues.side.attendance, [], SecureMember._say, Ue._made
    goes_on = threading.Event()

    async def said(member, session, kind, entries, *, of=""):
        if (member._number, kind) == (3, pb.SHARES):
            raise SecrecyError("it has no power for that")
        await say(member, session, kind, entries, of=of)

    def computed(ue, tag, vector):
        if ue._settings.number == 3:
            goes_on.wait(60.0)
        return made(ue, tag, vector)

    monkeypatch.setattr(attendance, "missed", lambda number, why, *rest, **more: missed.append((number, why)))
    with monkeypatch.context() as busy:
        busy.setattr(SecureMember, "_say", said)
        busy.setattr(Ue, "_made", computed)
        nodes.play(1)
        nodes.play(1)
        goes_on.set()
        assert nodes.deployment.cloud.delivered[0].ues == [0, 1, 2]
        assert 3 in nodes.edges[0].ues.hub.children
        assert [why for number, why in missed if number == 3 and "sketch" in why] == []
    play_until_all_are_in(nodes)


def test_who_leaves_just_after_a_sum_is_begun_again_is_waited_for_by_name(nodes, monkeypatch, lines):
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)
    sums, told, begun, say = nodes.edges[0].ues.secure, [], [], SecureMember._say

    async def said(member, session, kind, entries, *, of=""):
        if (member._number, kind) == (3, pb.KEYS):
            begun.append(session)
            await asyncio.sleep(3600)
        await say(member, session, kind, entries, of=of)

    async def computed():
        return await asyncio.sleep(3600)

    monkeypatch.setattr(SecureMember, "_say", said)
    again = nodes.loop.start(sums.gathered(nodes.edges[0].ues.side.model.tag, computed, None, told.append))
    try:
        until(lambda: begun)
        assert not lines(WAITS)
        nodes.kill("ue-3")
        until(lambda: lines(WAITS))
        assert lines(WAITS)[-1]["ues"] == sums.missing == ["ue-3"]
        assert told == [True]
    finally:
        again.cancel()


def test_a_run_whose_only_cell_lacks_one_that_was_in_a_sum_ends_with_its_name(certificates, monkeypatch):
    quick = {"least_wait_s": 2.0, "compute_s": 4.0, "patience_s": 4.0}
    with Nodes(certificates, *CELL, tiny=True, timing=quick, gives_up=True) as nodes:
        nodes.start_all()
        play_until_all_are_in(nodes)
        until(lambda: nodes.deployment.cloud.held)
        plain, lost = Collector.sum, []

        def summed(collector, name):
            if name == "sketch":
                lost.append(name)
                raise SecrecyError("what was revealed is lost")
            return plain(collector, name)

        monkeypatch.setattr(Collector, "sum", summed)
        nodes.play(1)
        until(lambda: lost)
        nodes.kill("ue-3")
        with pytest.raises(NobodyError, match=r"no edge had an update for \d+ s \(edge 0: it waits for ue-3, who"):
            nodes.play(1)
