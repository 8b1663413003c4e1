"""Secure sums where UEs are killed between any two steps, where the edge lies, and where a UE sends garbage."""

import asyncio
import secrets
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from deployment_nodes import Nodes, until

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_format import CellAgreed
from hpfl.deployment.secure_member import SecureMember
from hpfl.deployment.secure_trust import DeploymentTrust
from hpfl.deployment.secure_turns import SecureTurns
from hpfl.deployment.secure_wire import SKETCH, STEPS, UPDATE
from hpfl.secrecy import CertifiedMember, Collector, Member, SecrecyError

CELL = [
    "secure.aggregation=cell",
    "network.edges=1",
    "network.ues_per_edge=4",
    "planning.max_edges=1",
    "training.rounds=1000",
]
OF_FOUR = [step for step in STEPS if step not in {(pb.VOTES, SKETCH), (pb.VOTES, UPDATE)}]
"""Steps of a cell in which one leaves at most: nobody votes on survivors who has not lost somebody before."""
LAST_IN = OF_FOUR.index((pb.MASKED, UPDATE))
"""Whoever is killed later has its update in the sum."""


@pytest.fixture
def nodes(certificates, request):
    with Nodes(certificates, *CELL, *getattr(request, "param", []), tiny=True, timing={"least_wait_s": 2.0}) as made:
        made.start_all()
        yield made


def outcomes(nodes):
    found = nodes.edges[0].ues.side.metrics.secure.collect()[0].samples
    return {one.labels["outcome"]: one.value for one in found if one.name.endswith("_total")}


def is_mean_of(nodes, ues, before, after):
    """Whether a step is that of the mean of some UEs' updates: `Tiny` sends the model times 0.1 + 0.01 its number."""
    expected = (1.0 - nodes.config.learning.outer_lr * (0.1 + 0.01 * np.mean(ues))) * before.numpy()
    return float(np.abs(after.numpy() - expected).max()) <= 2e-6


class Killer:
    """Kills UEs as they are about to take a step, as a power cut would."""

    def __init__(self, monkeypatch, nodes):
        self.nodes, self.plan, self.dead = nodes, {}, []
        say, masked = SecureMember._say, SecureMember.masked_update

        async def said(member, session, kind, entries, *, of=""):
            await self.perhaps(member._number, (kind, of))
            await say(member, session, kind, entries, of=of)

        async def sent(member, *given):
            await self.perhaps(member._number, (pb.MASKED, "update"))
            return await masked(member, *given)

        monkeypatch.setattr(SecureMember, "_say", said)
        monkeypatch.setattr(SecureMember, "masked_update", sent)

    def kill(self, numbers, at):
        """These UEs, as they are about to take a step."""
        self.plan.update(dict.fromkeys(numbers, at))

    async def perhaps(self, number, step):
        if self.plan.get(number) == step:
            del self.plan[number]
            self.dead.append(number)
            self.nodes.tasks[f"ue-{number}"].cancel()
            await asyncio.sleep(3600)

    def revive(self):
        for number in self.dead:
            self.nodes.kill(f"ue-{number}")
            self.nodes.start_ue(number)
        until(lambda: len(self.nodes.edges[0].ues.hub.children) == len(self.nodes.ues))
        self.dead = []


def play_until_all_are_in(nodes):
    """Rounds until nobody is missing any more; the model after the last."""
    for _ in range(20):
        (after,) = nodes.play(1)
        delivered = nodes.deployment.cloud.delivered
        if delivered and len(delivered[0].ues) == len(nodes.ues):
            return after
    raise AssertionError("somebody stays away")


def test_a_ue_that_is_killed_between_any_two_steps_leaves_the_exact_mean_of_the_others(nodes, monkeypatch):
    killer = Killer(monkeypatch, nodes)
    for step, at in enumerate(OF_FOUR):
        before = play_until_all_are_in(nodes)
        killer.kill({step % 4}, at)
        while not killer.dead:
            known, (after,) = before, nodes.play(1)
            before = after if not killer.dead else known
        others = [ue for ue in range(4) if ue not in killer.dead]
        ues = nodes.deployment.cloud.delivered[0].ues
        assert ues == (list(range(4)) if step > LAST_IN else others), at
        assert is_mean_of(nodes, ues, before, after)
        killer.revive()
    assert outcomes(nodes).keys() == {"summed"}


@pytest.mark.parametrize("nodes", [["network.ues_per_edge=7"]], indirect=True)
def test_a_ue_that_is_killed_before_a_vote_leaves_the_exact_mean_of_those_who_stay(nodes, monkeypatch):
    """Of seven two may leave; somebody votes only where another has left before."""
    killer = Killer(monkeypatch, nodes)
    for of, first, last in ((SKETCH, 5, 1), (UPDATE, 4, 2)):
        before = play_until_all_are_in(nodes)
        killer.kill({first}, (pb.MASKED, of))
        killer.kill({last}, (pb.VOTES, of))
        while len(killer.dead) < 2:
            known, (after,) = before, nodes.play(1)
            before = after if not killer.dead else known
        ues = nodes.deployment.cloud.delivered[0].ues
        gone = {first, last} if of == SKETCH else {first}
        assert set(ues) == set(range(7)) - gone
        assert is_mean_of(nodes, ues, before, after)
        killer.revive()
    assert outcomes(nodes).keys() == {"summed"}


@pytest.mark.parametrize("at", [(pb.MASKED, "sketch"), (pb.REVEALED, "update")])
def test_with_more_than_a_third_gone_nothing_is_summed_and_a_later_round_works(nodes, monkeypatch, at):
    killer = Killer(monkeypatch, nodes)
    play_until_all_are_in(nodes)
    killer.kill({1, 2}, at)

    def revived():
        until(lambda: len(killer.dead) == 2)
        killer.revive()

    reviving = threading.Thread(target=revived)
    reviving.start()
    before = play_until_all_are_in(nodes)
    reviving.join()
    (after,) = nodes.play(1)
    assert outcomes(nodes)["too few"] >= 1
    assert is_mean_of(nodes, range(4), before, after)


class LyingEdge:
    """Changes what an edge sends in one step, once."""

    def __init__(self, monkeypatch, at, lie):
        self.told = 0
        send = SecureTurns.send

        def sent(turns, children, kind, entries=(), *, of="", agreed=b""):
            if (kind, of) == at and not self.told:
                self.told += 1
                for child in children:
                    send(turns, [child], kind, lie(child.number, entries), of=of, agreed=agreed)
            else:
                send(turns, children, kind, entries, of=of, agreed=agreed)

        monkeypatch.setattr(SecureTurns, "send", sent)


def successes(monkeypatch, what):
    """How often UEs do a step of the protocol without refusing it, from now on."""
    done, plain = [], getattr(Member, what)

    def counted(member, *given):
        found = plain(member, *given)
        done.append((member.number, given[0]))
        return found

    monkeypatch.setattr(Member, what, counted)
    return done


def substituted(number, adverts):
    """UE 0's keys are the edge's own, for all but UE 0."""
    forged = adverts[0][:4] + secrets.token_bytes(32) + adverts[0][36:]
    return adverts if number == 0 else {**adverts, 0: forged}


def test_keys_that_an_edge_puts_between_ues_are_refused_by_all_who_see_them(nodes, monkeypatch, lines):
    play_until_all_are_in(nodes)
    edge, shared = LyingEdge(monkeypatch, (pb.ROSTER, ""), substituted), successes(monkeypatch, "shares")
    before = play_until_all_are_in(nodes)
    assert edge.told == 1
    assert outcomes(nodes)["too few"] == 1
    assert [number for number, _ in shared[:1]] == [0]  # it alone was told the truth
    assert len(lines("sits out of a secure sum")) == 3
    (after,) = nodes.play(1)
    assert is_mean_of(nodes, range(4), before, after)


class Careless:
    """What an edge does with votes that wants to see what is masked: passes on whatever there is for whom."""

    def __init__(self, monkeypatch):
        self.votes = {}
        monkeypatch.setattr(Collector, "add_votes", lambda _, of, number, tags: self.votes.update({number: tags}))
        monkeypatch.setattr(Collector, "votes_for", lambda _, of, number: self.told(number))

    def told(self, number):
        return {voter: tags[number] for voter, tags in self.votes.items() if number in tags}


def test_an_edge_that_tells_two_lists_of_survivors_is_shown_nothing(nodes, monkeypatch):
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)  # the sketches of the next round are summed
    careful = {name: getattr(Collector, name) for name in ("add_votes", "votes_for")}
    careless = Careless(monkeypatch)
    at_once = Collector.at_once
    monkeypatch.setattr(Collector, "at_once", lambda *_: [])
    edge = LyingEdge(monkeypatch, (pb.SURVIVORS, "update"), lambda number, _: [0, 1, 2] if number < 2 else [1, 2, 3])
    revealed = successes(monkeypatch, "reveal")
    (before,) = nodes.play(1)
    assert edge.told == 1
    assert revealed == []
    assert len(careless.votes) == 4
    assert not nodes.deployment.cloud.delivered
    monkeypatch.setattr(Collector, "at_once", at_once)
    for name, plain in careful.items():
        monkeypatch.setattr(Collector, name, plain)
    after = play_until_all_are_in(nodes)
    assert is_mean_of(nodes, range(4), before, after)


def test_an_edge_that_sums_the_same_sketches_again_without_one_ue_is_shown_nothing(nodes, lines):
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)
    edge = nodes.edges[0]
    tag, held = edge.ues.side.model.tag, edge.ues.side.gathering.held

    async def computed():
        return {number: one.sketch for number, one in held.items()}

    edge.ues.secure._shown.clear()  # it pretends that nothing was uncovered
    nodes.kill("ue-3")
    told = []
    again = nodes.loop.start(edge.ues.secure.gathered(tag, computed, None, told.append))
    try:
        until(lambda: len(lines("sits out of a secure sum")) >= 3)
        until(lambda: told)
    finally:
        again.cancel()
    assert all(told)  # the cloud is told that it is without UEs
    assert all("summed before with others" in line["reason"] for line in lines("sits out of a secure sum"))


def test_an_edge_that_has_lost_a_sum_waits_for_its_ues_by_name_and_learns_the_same_sum_again(nodes, lines):
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)
    side, sums, told = nodes.edges[0].ues.side, nodes.edges[0].ues.secure, []
    tag, before = side.model.tag, sums.sketch.copy()

    async def computed():
        while len(side.gathering.held.keys() & side.hub.children.keys()) < 4:
            await asyncio.sleep(0.01)
        return {number: one.sketch for number, one in side.gathering.held.items()}

    nodes.kill("ue-3")
    until(lambda: 3 not in side.hub.children)  # its edge hears of it a moment later
    again = nodes.loop.start(sums.gathered(tag, computed, None, told.append))
    waits = "waits for those who were in the sum, or for another model"
    until(lambda: lines(waits))
    assert lines(waits)[-1]["ues"] == ["ue-3"]
    assert told == [True]
    sums.sketch = np.zeros(0)
    nodes.start_ue(3)
    assert set(again.result(30)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(sums.sketch, before)
    assert not lines("sits out of a secure sum")


def test_ues_whose_streams_are_cut_before_they_uncover_a_sum_come_back_and_uncover_it(nodes, monkeypatch):
    """More than a third at once: their processes live on, and nothing has to be begun again."""
    before, cut, say = play_until_all_are_in(nodes), set(), SecureMember._say

    async def said(member, session, kind, entries, *, of=""):
        if (kind, of) == (pb.REVEALED, UPDATE) and member._number in {1, 2} - cut:
            cut.add(member._number)
            member._link.stream.end()
            return
        await say(member, session, kind, entries, of=of)

    until(lambda: nodes.deployment.cloud.held)
    begun = outcomes(nodes).get("summed", 0.0)
    monkeypatch.setattr(SecureMember, "_say", said)
    (after,) = nodes.play(1)
    assert cut == {1, 2}
    assert outcomes(nodes) == {"summed": begun + 1.0}
    assert is_mean_of(nodes, range(4), before, after)


GARBAGE = {
    "shares of another size": (pb.SHARES, "", lambda data: data[:-1]),
    "shares that nobody can open": (pb.SHARES, "", lambda data: secrets.token_bytes(len(data))),
    "votes": (pb.VOTES, "", lambda data: secrets.token_bytes(len(data))),
    "votes of another size": (pb.VOTES, "", lambda data: data + b"x"),
    "shares that are revealed": (pb.REVEALED, "sketch", lambda data: data[:9] + secrets.token_bytes(9) + data[18:]),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_ue_that_sends_garbage_changes_no_sum(nodes, monkeypatch, what):
    kind, sum_of, garbled = GARBAGE[what]
    say = SecureMember._say
    before = play_until_all_are_in(nodes)

    async def said(member, session, step, entries, *, of=""):
        if member._number == 3 and (step, of) == (kind, sum_of):
            entries = {number: garbled(data) for number, data in entries.items()}
        await say(member, session, step, entries, of=of)

    monkeypatch.setattr(SecureMember, "_say", said)
    for _ in range(3):
        (after,) = nodes.play(1)
        ues = nodes.deployment.cloud.delivered[0].ues
        assert set(ues) >= {0, 1, 2}
        assert is_mean_of(nodes, ues, before, after)
        before = after
    left_out = nodes.edges[0].ues.side.attendance.left_out()
    assert left_out == (set() if what == "votes" else {3})


def test_nothing_of_a_sketch_or_an_update_passes_in_the_clear(nodes, monkeypatch):
    """Masked words fill their range evenly, and are far from what is masked; a sketch with its numbers is refused."""
    came, added, plain = [], Collector.add_masked, SecureMember.masked_update
    words = {}

    def seen(collector, name, number, masked):
        came.append((name, number, masked.copy()))
        added(collector, name, number, masked)

    async def noted(member, tag):
        update = member._held[1].arrives
        words[member._number] = member.format.update_words(update, 1, tag, CellAgreed(0), member._number)
        return await plain(member, tag)

    monkeypatch.setattr(Collector, "add_masked", seen)
    monkeypatch.setattr(SecureMember, "masked_update", noted)
    play_until_all_are_in(nodes)
    bits = nodes.experiment.secure.update.bits
    for name, number, masked in came:
        if name == "update" and number in words:
            shares = np.bincount((masked >> np.uint64(bits - 3)).astype(np.int64), minlength=8) / masked.size
            assert np.abs(shares - 1 / 8).max() < 0.01
            assert (masked == words[number]).mean() < 0.001
    side = nodes.edges[0].ues.side
    with pytest.raises(RefusedError, match="512 bytes came for 0 numbers"):
        nodes.edges[0].ues.ways.checked(side.hub.children[0], pb.Sketch(values=bytes(512), weight=1.0, num_samples=7))
    assert all(not len(one.sketch.values) for one in side.gathering.held.values())


def test_an_edge_that_is_started_again_goes_on_with_the_same_ues(nodes):
    """Also where its UEs have uncovered the sketches of the model in hand: it is the same sum again."""
    play_until_all_are_in(nodes)
    until(lambda: nodes.deployment.cloud.held)
    nodes.kill("edge-0")
    nodes.start_edge(0, listen=nodes.edge_ports[0])
    before = play_until_all_are_in(nodes)
    (after,) = nodes.play(1)
    assert is_mean_of(nodes, range(4), before, after)


def test_a_ue_in_anothers_seat_is_refused(certificates):
    tls, text = certificates.tls("ue-1"), b"keys"
    member = CertifiedMember(1, *parts_of(tls))
    trust = DeploymentTrust(tls)
    assert trust.check(1, member.certificate, text, member.sign(text)) == "ue-1"
    with pytest.raises(SecrecyError, match="the certificate of 'ue-1' came; wanted that of 'ue-2'"):
        trust.check(2, member.certificate, text, member.sign(text))


def parts_of(tls):
    own = OwnIdentity(tls)
    return own.certificate, load_pem_private_key(own.files.key, password=None)
