"""Each row of the threat table in docs/security.md, attempted."""

import asyncio
import datetime
import socket
import ssl
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from deployment_nodes import Certificates, Nodes, refused
from mallory import Mallory

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.certificates import issue
from hpfl.deployment.hub import Hub
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import LimitSettings, SettingsError, TlsSettings
from hpfl.deployment.wire import Tag, encode

QUICK = {"gather_s": 1.0, "compute_s": 5.0, "deadline_slack_s": 1.0}


@pytest.fixture
def edge(certificates):
    """A cloud, an edge and one honest UE; the second UE's place is Mallory's."""
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        yield nodes


def attempt(nodes, mallory, work):
    """Let Mallory act while a round is played."""
    acting = nodes.loop.start(work(mallory))
    nodes.play(1)
    outcome = acting.result(60)
    nodes.loop.run(mallory.close(), 5)
    return outcome


def cannot_attach(nodes, mallory, **hello):
    async def work():
        await mallory.open()
        await mallory.hello(**hello)
        await mallory.next("welcome", within_s=5.0)

    with pytest.raises(
        (grpc.aio.AioRpcError, ConnectionError, asyncio.InvalidStateError, grpc.aio.UsageError)
    ) as error:
        nodes.loop.run(work(), 10)
    nodes.loop.run(mallory.close(), 5)
    assert mallory.number not in nodes.edges[0].ues.hub.children
    return error.value


def test_a_certificate_of_another_authority_is_not_admitted(edge, tmp_path):
    foreign = Certificates(tmp_path)
    error = cannot_attach(edge, Mallory(edge, 1, tls=_mixed(edge.certificates, foreign, "ue-1")))
    assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_an_expired_certificate_is_not_admitted(edge, tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    past = (now - datetime.timedelta(days=9), now - datetime.timedelta(days=2))
    issue(edge.certificates.authority, tmp_path, "ue-1", validity=past)
    tls = _tls(edge.certificates.folder / "ca.pem", tmp_path, "ue-1")
    assert cannot_attach(edge, Mallory(edge, 1, tls=tls)).code() == grpc.StatusCode.UNAVAILABLE


def test_an_edge_admits_only_its_own_ues(edge):
    tls = edge.certificates.tls("ue-9")
    error = cannot_attach(edge, Mallory(edge, 1, name="ue-9", tls=tls))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert "not among this node's children" in error.details()


def test_nobody_speaks_in_anothers_name(edge):
    error = cannot_attach(edge, Mallory(edge, 1, name="ue-0", tls=edge.certificates.tls("ue-1")))
    assert "speaks with the certificate of 'ue-1'" in error.details()


def test_another_configuration_is_not_admitted(edge):
    error = cannot_attach(edge, Mallory(edge, 1, fingerprint="something else"))
    assert "configuration" in error.details()


def test_a_ues_certificate_cannot_serve(edge, certificates):
    """An impostor with a UE's certificate, or with one of another authority, is no edge to an honest UE."""
    limits = LimitSettings()

    async def serve():
        hub = Hub(None, {"ue-1": 1}, shapes=None, limits=limits, metrics=Metrics())
        return hub, await hub.start("127.0.0.1:0", certificates.tls("ue-0"))

    hub, port = edge.loop.run(serve(), 5)
    for name in ("edge-0", "ue-0"):
        mallory = Mallory(edge, 1, server=name)

        async def visit(mallory=mallory):
            await mallory.open(f"127.0.0.1:{port}")
            await mallory.hello()
            await mallory.next("welcome", within_s=5.0)

        with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError)):
            edge.loop.run(visit(), 10)
        edge.loop.run(mallory.close(), 5)
    assert hub.metrics.received._value.get() == 0
    edge.loop.run(hub.stop(), 5)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_only_tls_1_3_with_a_client_certificate_is_spoken(edge, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(edge.certificates.folder / "ca.pem"))
    if version == "1.2":
        own = edge.certificates.tls("ue-1")
        context.load_cert_chain(own.certificate, own.private_key)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", edge.edge_ports[0]), timeout=5) as plain:
        assert _answer(context, plain) == b""


BAD_UPDATES = {
    "NaN": ("nonfinite", lambda n: np.full(n, np.nan, np.float32), {}),
    "infinite": ("nonfinite", lambda n: np.full(n, np.inf, np.float32), {}),
    "huge": ("norm", lambda n: np.full(n, 1e9, np.float32), {}),
    "short": ("shape", lambda n: np.zeros(n - 1, np.float32), {}),
    "long": ("shape", lambda n: np.zeros(n + 1, np.float32), {}),
    "another type": ("type", lambda n: np.zeros(n, np.float64), {}),
    "another weight": ("weight", lambda n: np.zeros(n, np.float32), {"weight": 1e6}),
    "NaN weight": ("weight", lambda n: np.zeros(n, np.float32), {"weight": float("nan")}),
    "other samples": ("samples", lambda n: np.zeros(n, np.float32), {"num_samples": 10**6}),
}


@pytest.mark.parametrize("what", BAD_UPDATES)
def test_a_bad_update_is_refused_and_never_touches_the_mean(edge, what):
    code, make, head = BAD_UPDATES[what]

    async def work(mallory):
        tag = await mallory.ordered()
        await mallory.send(*mallory.update(tag, make(mallory.spec.length), **head))
        await mallory.next("refusal")
        return mallory.refusals

    assert attempt(edge, Mallory(edge, 1), work) == [code]
    assert refused(edge.edges[0].ues.hub)[code] == 1
    assert edge.record.num_aggregated == 1
    assert edge.deployment.cloud.delivered[0].ues == [0]
    assert bool(edge.state.params.isfinite().all())


def test_a_sketch_with_nan_is_refused(edge):
    async def work(mallory):
        await mallory.open()
        await mallory.hello()
        tag, _ = await mallory.next("vector")
        bad = pb.Sketch(values=np.full(64, np.nan).tobytes(), weight=1.0, num_samples=7)
        await mallory.send(encode(tag.by(mallory.name), sketch=bad))
        await mallory.next("refusal")
        await mallory.close()
        return mallory.refusals

    assert attempt(edge, Mallory(edge, 1), work) == ["nonfinite"]
    assert edge.deployment.cloud.delivered[0].ues == [0]


def test_a_vector_announced_as_a_gigabyte_gets_no_memory(edge):
    async def work(mallory):
        tag = await mallory.ordered()
        begin = pb.Begin(purpose=pb.UPDATE, type=pb.FLOAT32, length=2**28, data=b"x" * 1024, weight=1, num_samples=7)
        await mallory.send(encode(tag, begin=begin))
        await mallory.next("refusal")
        return mallory.refusals

    assert attempt(edge, Mallory(edge, 1), work) == ["shape"]


@pytest.mark.parametrize("megabytes", [3, 64, pytest.param(1024, marks=pytest.mark.slow)])
def test_an_oversized_message_ends_its_stream_and_nothing_else(edge, megabytes):
    edge.deployment.executor.settings.timing.deadline_slack_s = 60.0  # to write a gigabyte keeps the one loop busy

    async def work(mallory):
        await mallory.ordered()
        try:
            await mallory.send(bytes(megabytes * 2**20))
            await mallory.next("refusal")
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError, ConnectionError):
            return await mallory.call.code()

    assert attempt(edge, Mallory(edge, 1), work) in {
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
    }
    assert edge.record.num_aggregated == 1
    assert 0 in edge.edges[0].ues.hub.children


def test_a_sender_that_stalls_is_cut_off(certificates):
    slow = {**QUICK, "deadline_slack_s": 8.0}
    shape = ("network.edges=1", "planning.max_edges=1")
    with Nodes(certificates, *shape, tiny=True, timing=slow, limits={"idle_s": 0.5}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)

        async def work(mallory):
            tag = await mallory.ordered()
            first = mallory.update(tag, np.zeros(mallory.spec.length, np.float32), chunk_bytes=1024)[0]
            await mallory.send(first)
            await asyncio.sleep(2.0)

        attempt(nodes, Mallory(nodes, 1), work)
        assert refused(nodes.edges[0].ues.hub) == {"late": 1}
        assert nodes.deployment.cloud.delivered[0].ues == [0]


def test_a_child_that_does_not_read_holds_up_nobody(certificates):
    shape = ("network.edges=1", "planning.max_edges=1")
    impatient = {**QUICK, "compute_s": 1.0, "evaluate_s": 1.0}
    with Nodes(certificates, *shape, tiny=True, timing=impatient, limits={"idle_s": 0.5}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        mallory = Mallory(nodes, 1)

        async def work():
            await mallory.open()
            await mallory.hello()
            await mallory.next("welcome")

        nodes.loop.run(work(), 10)  # and not another word is read
        nodes.play(3)
        assert nodes.record.num_aggregated == 1
        assert nodes.deployment.cloud.delivered[0].ues == [0]
        nodes.loop.run(mallory.close(), 5)


def test_a_silent_connection_is_cut_off(certificates):
    with Nodes(certificates, tiny=True, limits={"handshake_s": 0.5}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        mallory = Mallory(nodes, 1)

        async def work():
            await mallory.open()
            await mallory.next("welcome", within_s=5.0)

        with pytest.raises(grpc.aio.AioRpcError) as error:
            nodes.loop.run(work(), 10)
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        nodes.loop.run(mallory.close(), 5)


def test_replayed_messages_are_refused_in_the_same_round_and_in_later_ones(edge):
    kept = {}

    async def first(mallory):
        tag = await mallory.ordered()
        kept["frames"] = mallory.update(tag, np.zeros(mallory.spec.length, np.float32))
        await mallory.send(*kept["frames"], *kept["frames"])
        await mallory.next("refusal")
        return mallory.refusals

    assert attempt(edge, Mallory(edge, 1), first)[0] in {"repeated", "late"}
    assert sorted(edge.deployment.cloud.delivered[0].ues) == [0, 1]

    async def second(mallory):
        await mallory.ordered()
        await mallory.send(*kept["frames"])
        await mallory.next("refusal")
        return mallory.refusals

    assert attempt(edge, Mallory(edge, 1), second) == ["stale"]
    assert edge.deployment.cloud.delivered[0].ues == [0]


def test_unasked_messages_are_refused_and_a_flood_of_them_ends_the_stream(edge):
    async def work(mallory):
        await mallory.open()
        await mallory.hello()
        tag, _ = await mallory.next("vector")
        junk = encode(Tag(node=mallory.name, run=tag.run), welcome=pb.Welcome())
        try:
            for _ in range(500):
                await mallory.send(junk)
            await mallory.next("order", within_s=5)
        except (grpc.aio.AioRpcError, ConnectionError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return len(mallory.refusals)

    attempt(edge, Mallory(edge, 1), work)
    limit = LimitSettings().refusals
    assert refused(edge.edges[0].ues.hub)["unexpected"] == limit + 1
    assert 1 not in edge.edges[0].ues.hub.children


def test_a_flood_of_connections_does_not_disturb_who_is_there(certificates):
    limits = {"connections": 20, "handshake_s": 1.0}
    shape = ("network.edges=1", "planning.max_edges=1")
    with Nodes(certificates, *shape, tiny=True, timing=QUICK, limits=limits) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        nodes.play(1)
        flood = []
        for _ in range(200):
            connection = socket.create_connection(("127.0.0.1", nodes.edge_ports[0]), timeout=5)
            connection.setblocking(False)
            flood.append(connection)
        time.sleep(0.3)
        nodes.play(1)
        assert nodes.record.num_aggregated == 1
        time.sleep(1.0)  # those that got in have not proved who they are, and are out again
        assert sum(_is_open(connection) for connection in flood) == 0
        nodes.start_ue(1)
        end = time.monotonic() + 10
        while 1 not in nodes.edges[0].ues.hub.children:
            assert time.monotonic() < end
            time.sleep(0.05)
        for connection in flood:
            connection.close()


def test_a_key_that_others_can_read_is_refused(certificates, tmp_path):
    tls = certificates.tls("ue-2")
    loose = tmp_path / "loose.key"
    loose.write_bytes(Path(tls.private_key).read_bytes())
    loose.chmod(0o644)
    from hpfl.deployment.security import read_files

    with pytest.raises(SettingsError, match="chmod 600"):
        read_files(TlsSettings(ca=tls.ca, certificate=tls.certificate, private_key=str(loose)))


def _answer(context, plain):
    """What a server says to the first words of HTTP/2, if it comes to that."""
    try:
        with context.wrap_socket(plain, server_hostname="edge-0") as wrapped:
            wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            return wrapped.recv(4096)
    except (ssl.SSLError, ConnectionError):
        return b""


def _is_open(connection):
    try:
        return connection.recv(65536) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _tls(ca, folder, name):
    return TlsSettings(ca=str(ca), certificate=str(folder / f"{name}.pem"), private_key=str(folder / f"{name}.key"))


def _mixed(trusted, foreign, name):
    """Trusts the right authority, shows a certificate of another."""
    own = foreign.tls(name)
    return TlsSettings(ca=trusted.tls(name).ca, certificate=own.certificate, private_key=own.private_key)
