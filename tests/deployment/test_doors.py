"""What one certificate can hold of a server, and what becomes of the older of two streams of one name."""

import asyncio
import socket
import ssl
import time

import grpc
import pytest
from deployment_nodes import Nodes, refused, until
from mallory import Mallory

from hpfl.deployment.doors import STREAMS_BY_NAME, place_of
from hpfl.deployment.node import SharedWork
from hpfl.deployment.ue import Ue

ONE_EDGE = ("network.edges=1", "planning.max_edges=1", "training.rounds=1000")
QUICK = {"gather_s": 1.0, "compute_s": 5.0, "deadline_slack_s": 1.0}
GONE = (grpc.aio.AioRpcError, ConnectionError, asyncio.InvalidStateError, grpc.aio.UsageError)


def one_edge(certificates, **limits):
    nodes = Nodes(certificates, *ONE_EDGE, tiny=True, timing=QUICK, limits=limits)
    nodes.start_cloud()
    nodes.start_edge(0)
    return nodes


async def visited(mallory):
    await mallory.open()
    try:
        await mallory.hello(visitor=True)
        await mallory.next("welcome", within_s=20.0)
    except GONE:
        return None if not mallory.call.done() else await mallory.call.details()


def test_one_certificate_that_visits_without_end_locks_nobody_out(certificates):
    with one_edge(certificates) as nodes:
        crowd = [Mallory(nodes, 1) for _ in range(2 * 2 + 16)]  # what used to be all streams of an edge with two UEs
        said = [nodes.loop.run(visited(one), 20) for one in crowd]
        assert said[:STREAMS_BY_NAME] == [None] * STREAMS_BY_NAME
        told = set(said[STREAMS_BY_NAME:])
        assert told - {"Internal error from Core"} == {
            "crowded: 'ue-1' has 4 streams already"
        }  # a call that just ended
        assert refused(nodes.edges[0].ues.hub) == {"crowded": 16}
        nodes.start_ue(0)
        nodes.play(2)
        assert nodes.record.num_participants == 1
        for one in crowd:
            nodes.loop.run(one.close(), 5)
        nodes.start_ue(1)
        until(lambda: 1 in nodes.edges[0].ues.hub.children)


def test_a_visit_has_an_end(certificates):
    """There is no cloud's answer while none is there: the visitor would wait for ever."""
    with one_edge(certificates, visit_s=0.5) as nodes:
        nodes.stop_cloud()
        mallory = Mallory(nodes, 1)

        async def waits():
            await mallory.open()
            await mallory.hello(visitor=True)
            await mallory.next("vector", within_s=20.0)

        with pytest.raises(GONE):
            nodes.loop.run(waits(), 20)
        assert nodes.loop.run(mallory.call.code(), 5) is grpc.StatusCode.DEADLINE_EXCEEDED
        assert nodes.loop.run(mallory.call.details(), 5) == "a visit ends after 0.5 s"
        until(lambda: not nodes.edges[0].ues.ways.visitors)
        nodes.loop.run(mallory.close(), 5)


def greeting(certificates, name, port):
    """A connection that has shown its certificate and says what HTTP/2 wants first, and nothing more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own = certificates.tls(name)
    context.load_verify_locations(own.ca)
    context.load_cert_chain(own.certificate, own.private_key)
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", port), timeout=5)
    wrapped = context.wrap_socket(plain, server_hostname="edge-0")
    wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    wrapped.settimeout(0.05)
    return wrapped


def is_open(connection):
    try:
        return connection.recv(65536) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "name", [pytest.param("ue-9", id="not on the roster"), pytest.param("ue-1", id="on it", marks=pytest.mark.slow)]
)
def test_a_certificate_that_opens_no_stream_is_closed_when_the_handshake_time_is_over(certificates, name):
    with one_edge(certificates, connections=20, handshake_s=1.0) as nodes:
        nodes.start_ue(0)
        nodes.play(1)
        crowd = [greeting(certificates, name, nodes.edge_ports[0]) for _ in range(15)]
        until(lambda: sum(map(is_open, crowd)) == 0, seconds=20)
        nodes.play(2)
        assert nodes.record.num_participants == 1
        assert set(nodes.edges[0].ues.hub.children) == {0}  # who is there was never touched
        for one in crowd:
            one.close()


def test_who_is_refused_over_and_over_holds_no_connection(certificates, lines):
    """A certificate of the authority's that is on no roster keeps one connection busy with streams."""
    with one_edge(certificates, handshake_s=0.8) as nodes:
        mallory = Mallory(nodes, 1, name="ue-9", tls=certificates.tls("ue-9"))

        async def insist():
            await mallory.open()
            end = asyncio.get_running_loop().time() + 20.0
            codes = []
            while asyncio.get_running_loop().time() < end and grpc.StatusCode.UNAVAILABLE not in codes[1:]:
                codes.append(await mallory.call.code())
                await asyncio.sleep(0.1)
                mallory.call = mallory.channel.stream_stream("/hpfl.tier.v1.Tier/Attach")()
                if lines("connections closed"):
                    break
            return codes

        codes = nodes.loop.run(insist(), 30)
        assert codes[0] is grpc.StatusCode.PERMISSION_DENIED
        until(lambda: any(line["peer"] == "127.0.0.1" for line in lines("connections closed")))
        nodes.loop.run(mallory.close(), 5)


def test_more_connections_of_one_address_than_allowed_are_closed_before_their_time(certificates):
    with one_edge(certificates, handshake_s=8.0, per_address=5) as nodes:
        nodes.start_ue(0)
        nodes.play(1)
        began = time.monotonic()
        crowd = [greeting(certificates, "ue-1", nodes.edge_ports[0]) for _ in range(12)]
        until(lambda: sum(is_open(one) for one in crowd) == 5, seconds=20)
        assert time.monotonic() - began < 8.0
        nodes.play(1)
        assert nodes.record.num_participants == 1
        for one in crowd:
            one.close()


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:10.0.0.1:4711", ("10.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::ffff:10.0.0.1]:4711", ("10.0.0.1", 4711)),
        ("unix:", ("unix:", 0)),
    ],
)
def test_a_peer_has_one_address_however_it_is_spelled(peer, place):
    assert place_of(peer) == place


def test_the_older_of_two_processes_of_one_name_is_told_and_they_do_not_fight(certificates, lines):
    with one_edge(certificates) as nodes:
        nodes.start_ue(0)
        until(lambda: 0 in nodes.edges[0].ues.hub.children)
        settings = nodes.ue_settings(0)

        async def twin():
            return Ue(settings, SharedWork(settings), nodes.learners[0])

        nodes._spawn("twin", nodes.loop.run(twin(), 5).run())
        until(lambda: len(lines("turned away")) >= 1)
        first = lines("turned away")[0]
        assert (first["parent"], first["status"]) == ("edge-0", "ALREADY_EXISTS")
        until(lambda: len(lines("turned away")) >= 8)
        assert {line["reason"] for line in lines("lost the parent")} == {
            "another process has attached as 'ue-0'; only the newest counts"
        }
        pauses = [line["next_attempt_s"] for line in lines("turned away")]
        assert max(pauses) > 1.5 * nodes.common["timing"].retry_s  # longer than any pause after a mere loss
        nodes.play(2)
        assert nodes.record.num_participants == 1


def test_who_is_cut_off_is_told_why(certificates):
    from hpfl.deployment import tier_pb2 as pb
    from hpfl.deployment.wire import Tag, encode

    with one_edge(certificates, refusals=3) as nodes:
        mallory = Mallory(nodes, 1)

        async def flood():
            await mallory.open()
            await mallory.hello()
            await mallory.next("welcome")
            junk = encode(Tag(node=mallory.name), welcome=pb.Welcome())
            try:
                for _ in range(20):
                    await mallory.send(junk)
                    await mallory.next("refusal", within_s=10)
            except GONE:
                return await mallory.call.code(), await mallory.call.details()

        code, why = nodes.loop.run(flood(), 20)
        assert (code, why) == (grpc.StatusCode.ABORTED, "ue-1 sent more than 3 messages that were refused")
        nodes.loop.run(mallory.close(), 5)
