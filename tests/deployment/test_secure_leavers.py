"""Deployed secure sums of other UEs than were there before: what leaks, what is refused, and who is blamed."""

import asyncio

import numpy as np
import pytest
from deployment_nodes import Nodes, until
from test_secure_attacks import CELL, Killer, is_mean_of, outcomes, play_until_all_are_in, successes

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.edge_ues import EdgeUes
from hpfl.deployment.secure_cell import SecureCell
from hpfl.deployment.secure_format import CellAgreed
from hpfl.deployment.secure_member import SecureMember, _Session
from hpfl.deployment.secure_sums import SecureSums
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.ue import Ue
from hpfl.deployment.wire import Tag


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
