"""Words of peers in logs: cut, escaped, and not more of them than a person can read."""

import io
import json
import logging

import grpc
import pytest
from deployment_nodes import Nodes, until
from mallory import Mallory

from hpfl.deployment import logs
from hpfl.deployment.held_back import HeldBack
from hpfl.deployment.logs import LOGGER, JsonLines, log
from hpfl.deployment.peer_text import plain
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.security import read_files, server_credentials
from hpfl.deployment.wire import METHOD

FORGED = '\x1b[2J\r\n{"event": "forged"}\u202e'


@pytest.fixture
def written():
    """What a node writes to its log."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines("edge-0"))
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield text
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(before)


def test_greetings_of_two_megabytes_leave_a_few_short_lines(certificates, written):
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        mallory = Mallory(nodes, 1, fingerprint=FORGED + 1_900_000 * "x")

        async def greet():
            await mallory.open()
            await mallory.hello()
            code = await mallory.call.code()
            said = await mallory.call.details()
            await mallory.close()
            return code, said

        answers = [nodes.loop.run(greet(), 20) for _ in range(40)]
        assert {code for code, _ in answers} == {grpc.StatusCode.PERMISSION_DENIED}
        assert len(answers[0][1]) < 400
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    refused = [line for line in lines if line["event"] == "refused"]
    assert len(refused) <= 21
    assert refused[-1]["then"] == "few of the next are told"
    assert max(map(len, written.getvalue().splitlines())) < 1000
    assert not any(sign in line["reason"] for line in refused for sign in FORGED if not sign.isprintable())


def test_a_reason_from_a_parent_puts_nothing_but_text_into_a_ues_log(certificates, written):
    """An impostor with the edge's certificate denies with control characters and a line of its own."""
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True) as nodes:

        async def deny(_requests, context):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, FORGED + 2000 * "y")

        async def serve():
            server = grpc.aio.server()
            service, method = METHOD.strip("/").split("/")
            handler = grpc.stream_stream_rpc_method_handler(deny)
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
            port = server.add_secure_port(
                "127.0.0.1:0", server_credentials(lambda: read_files(certificates.tls("edge-0")))
            )
            await server.start()
            return server, port

        server, port = nodes.loop.run(serve(), 10)
        nodes.start_ue(0, port=port)
        until(lambda: "turned away" in written.getvalue())
        nodes.kill("ue-0")
        nodes.loop.run(server.stop(0), 10)
    reasons = [
        line["reason"]
        for line in map(json.loads, written.getvalue().splitlines())
        if line["event"] == "lost the parent"
    ]
    assert all(reason.isprintable() and len(reason) < 400 for reason in reasons)
    assert any(reason.startswith("\\x1b[2J\\r\\n{") for reason in reasons)  # gRPC may have lost one on its own


def test_lines_of_one_peer_are_held_back_and_counted(monkeypatch, written):
    now = [0.0]
    monkeypatch.setattr(logs, "_held_back", HeldBack(burst=3, every_s=10.0, clock=lambda: now[0]))
    for _ in range(50):
        log("refused", child="ue-1", reason="r")
    log("refused", child="ue-2", reason="r")
    log("update sent", round=1)
    now[0] = 10.0
    log("refused", child="ue-1", reason="r")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line.get("child") for line in lines] == ["ue-1", "ue-1", "ue-1", "ue-2", None, "ue-1"]
    assert lines[-1]["suppressed"] == 47


@pytest.mark.parametrize("text", ["plain", "", "ÿ Ω 名", "a" * 300])
def test_short_plain_words_stay_as_they_are(text):
    assert plain(text) == text


def test_a_refusal_keeps_little_of_what_it_quotes():
    error = RefusedError("identity", f"{'n' * 10**6 + chr(10)!r} speaks")
    assert len(error.reason) < 350
    assert str(error) == error.reason
