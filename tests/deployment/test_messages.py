"""Messages that are lost, come twice or come late, and streams that end half-way: rounds go on, and nodes come back."""

import asyncio
import json

import pytest
from chaos import Chaos
from deployment_nodes import Nodes, audit_script, refused, until

from hpfl.deployment.audit import AuditLog
from hpfl.deployment.node import until_stopped
from hpfl.deployment.stream import TierStream
from hpfl.rng import Streams

MANY = "training.rounds=1000"


def last_round_of(folder):
    return json.loads((folder / "audit.jsonl").read_text().splitlines()[-1])


def by_chance(seed, *directions, share=0.15):
    """Some frames come late, some twice."""
    draws = iter(Streams(seed).at("chaos").uniform(100_000))

    def fate(direction, kind):
        draw = next(draws)
        if direction not in directions:
            return None
        return "late" if draw < share else "doubled" if draw > 1.0 - share else None

    return fate


@pytest.mark.parametrize("directions", [("up",), ("up", "down")])
def test_duplicated_and_reordered_messages_spoil_nothing(certificates, tmp_path, monkeypatch, directions):
    pace = {"paced": True, "time_scale": 0.3}
    quick = {"gather_s": 1.0, "compute_s": 1.0, "deadline_slack_s": 0.5, "deadline_factor": 1.5}
    with Nodes(certificates, MANY, tiny=True, timing=quick, limits={"refusals": 10_000}, **pace) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(1)
        with Chaos(monkeypatch, by_chance(7, *directions)) as chaos:
            nodes.play(12)
        nodes.play(2)
        codes = set(refused(nodes.edges[0].ues.hub))
    counts = audit_script.audit(tmp_path)
    assert counts["rounds"] == 15
    assert counts["updates"] >= 10
    assert {"repeated", "order", "stale"} & codes
    assert {fate for _, _, fate in chaos.seen} == {"late", "doubled"}


def test_a_sketch_that_crosses_a_second_question_is_not_held_against_its_ue(certificates):
    """A slow, crowded edge asks again while answers are on their way: each UE answers as often as it was asked."""
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", MANY, tiny=True) as nodes:
        nodes.start_all()
        nodes.play(1)
        side = nodes.edges[0].ues.side
        children = list(side.hub.children.values())
        until(lambda: [held.tag.base_round for held in side.gathering.held.values()] == [nodes.state.round] * 2)
        before, refusals = [child.stream.received_bytes for child in children], refused(side.hub)

        async def ask():
            side.ask_again(children)

        nodes.loop.run(ask(), 10)
        until(lambda: all(child.stream.received_bytes > b for child, b in zip(children, before, strict=True)))
        until(lambda: [child.may_repeat for child in children] == [0, 0])
        assert refused(side.hub) == refusals


MESSAGES = [
    ("up", "sketch"),
    ("up", "update"),
    ("up", "figures"),
    ("up", "refusal"),
    ("down", "train"),
    ("down", "order"),
    ("down", "evaluate"),
    ("down", "request"),
]


@pytest.mark.parametrize(("direction", "kind"), MESSAGES)
def test_a_lost_message_of_any_kind_costs_a_while_and_no_more(certificates, tmp_path, monkeypatch, direction, kind):
    """The first two of its kind on every tier vanish (those that are rare, with what makes them come)."""
    lost, rare = [], kind in {"refusal", "request"}
    other = {"refusal": ("down", "train"), "request": ("up", "sketch")}.get(kind)

    def fate(*message):
        if message not in {(direction, kind), other} or len(lost) >= (24 if rare else 6):
            return None
        lost.append(message)
        return "lost"

    quick = {"gather_s": 0.5, "compute_s": 1.0, "evaluate_s": 1.0, "deadline_slack_s": 0.5, "least_wait_s": 0.3}
    with Nodes(certificates, MANY, "evaluation.every=1", tiny=True, timing=quick) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(1)
        with Chaos(monkeypatch, fate):
            nodes.play(4)
        nodes.play(2000, watch=lambda state, record: record.num_participants < 4)  # who was left out comes back
        assert nodes.record.aggregated == (0, 1)
    assert (direction, kind) in lost
    assert audit_script.audit(tmp_path)["rounds"] >= 6
    assert last_round_of(tmp_path)["ues"] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("kind", ["hello", "welcome"])
def test_a_lost_greeting_is_repeated(certificates, monkeypatch, kind):
    lost = []

    def fate(direction, came):
        if came != kind or len(lost) >= 3:
            return None
        lost.append(came)
        return "lost"

    limits = {"handshake_s": 0.5}
    with Nodes(certificates, MANY, tiny=True, limits=limits) as nodes, Chaos(monkeypatch, fate):
        nodes.start_all()
        nodes.play(2)
        assert nodes.record.aggregated == (0, 1)
    assert len(lost) == 3


def test_a_lost_farewell_is_repeated_so_that_everybody_ends(certificates, monkeypatch):
    lost = []

    def fate(direction, kind):
        if kind != "stop" or len(lost) >= 3:
            return None
        lost.append(kind)
        return "lost"

    with Nodes(certificates, tiny=True) as nodes, Chaos(monkeypatch, fate):
        nodes.start_all()
        nodes.play()
        nodes.loop.run(nodes.deployment.cloud.stop(completed=True), 15)
        until(lambda: all(task.done() for task in nodes.tasks.values()))
    assert len(lost) == 3


@pytest.mark.parametrize("name", ["edge-1", "ue-2"])
def test_a_stream_that_ends_on_this_side_is_opened_again(certificates, name):
    """gRPC cancels a whole stream where a write to it is cancelled; a node must not take that for its own end."""
    with Nodes(certificates, MANY, tiny=True) as nodes:
        nodes.start_all()
        nodes.play(1)
        node = nodes.edges[1] if name == "edge-1" else nodes.ues[2]
        hub = nodes.deployment.cloud.hub if name == "edge-1" else nodes.edges[1].ues.hub
        before = hub.children[node._settings.number]
        nodes.loop.loop.call_soon_threadsafe(node.up.link.stream._call.cancel)
        until(lambda: hub.children.get(node._settings.number) not in {None, before})
        assert not nodes.tasks[name].done()
        nodes.play(2)
        assert nodes.record.aggregated == (0, 1)


def test_a_sender_that_is_cancelled_leaves_its_stream_whole():
    class Call:
        def __init__(self):
            self.through, self.cut = [], False

        async def write(self, frame):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                self.cut = True
                raise
            self.through.append(frame)

    async def scene():
        call = Call()
        link = TierStream(call, peer="the parent", idle_s=5.0, cut=lambda: None)
        sending = asyncio.ensure_future(link.send(b"one", b"two"))
        await asyncio.sleep(0.01)
        sending.cancel()
        after = asyncio.ensure_future(link.send(b"three"))
        await asyncio.gather(sending, after, return_exceptions=True)
        return call, sending

    call, sending = asyncio.run(scene())
    assert sending.cancelled()
    assert not call.cut
    assert call.through == [b"one", b"three"]


def test_a_node_whose_work_is_cancelled_by_nobody_does_not_pass_for_finished():
    async def work():
        raise asyncio.CancelledError

    async def scene():
        await until_stopped(work(), asyncio.Event())

    with pytest.raises(RuntimeError, match="nobody had asked"):
        asyncio.run(scene())
