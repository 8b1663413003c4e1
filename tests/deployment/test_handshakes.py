"""Handshakes that fail at a server are in its log, with the peer's address and a reason, and cannot fill it."""

import datetime
import json
import socket
import ssl

import pytest
from deployment_nodes import SMALL, Certificates, until

import hpfl
from hpfl.deployment.certificates import issue, load_authority
from hpfl.deployment.handshakes import HandshakeWatch
from hpfl.deployment.local import LocalOptions, Supervisor, lay_out
from hpfl.deployment.parent_check import checked_parent
from hpfl.deployment.settings import CloudNodeSettings, SettingsError, TlsSettings, read_settings


def lines(node, event):
    found = [json.loads(line) for line in node.log.read_text().splitlines()] if node.log.exists() else []
    return [line for line in found if line["event"] == event]


def test_a_server_says_who_failed_to_shake_hands_and_why_and_a_flood_of_them_fills_no_log(tmp_path):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "network.edges=1", "network.ues_per_edge=1"])
    cloud = lay_out(tmp_path, config, LocalOptions())[0]
    other = Certificates(tmp_path / "other").tls("edge-0")
    certs = tmp_path / "certs"
    address = read_settings(CloudNodeSettings, cloud.file).listen
    place = (address.split(":")[0], int(address.split(":")[1]))
    supervisor = Supervisor([cloud])
    supervisor.start()

    def tried(certificate, key):
        with pytest.raises(SettingsError):
            checked_parent(
                TlsSettings(ca=str(certs / "ca.pem"), certificate=certificate, private_key=key),
                address,
                "cloud",
                "cloud",
            )

    def told(words):
        until(lambda: any(words in line["reason"] for line in lines(cloud, "handshake failed")), 20)

    try:
        until(lambda: lines(cloud, "listening"))
        tried(other.certificate, other.private_key)
        told("another authority")
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        issue(load_authority(certs), certs, "edge-0", validity=(now - 2 * day, now - day))
        tried(str(certs / "edge-0.pem"), str(certs / "edge-0.key"))
        told("expired")
        with socket.create_connection(place) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            plain.recv(100)
        told("does not speak TLS")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(certs / "ca.pem")
        with (
            socket.create_connection(place) as plain,
            context.wrap_socket(plain, server_hostname="cloud") as bare,
            pytest.raises((OSError, AssertionError)),
        ):
            assert bare.recv(1)
        told("it has shown none")
        for _ in range(200):
            with socket.create_connection(place) as plain:
                plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        until(lambda: supervisor.processes["cloud"].poll() is None and len(lines(cloud, "handshake failed")) >= 5)
        failures = lines(cloud, "handshake failed")
        assert {line["peer"] for line in failures} == {"127.0.0.1"}
        assert len(failures) <= 60
        assert cloud.log.stat().st_size < 30_000
    finally:
        supervisor.stop()


def test_what_grpc_did_not_write_is_passed_on():
    passed = []
    watch = HandshakeWatch(passed.append)
    for line in (
        "I1116 21:37:42.709581     869 trace.cc:91] gRPC Tracers: handshaker",
        "Fatal Python error: Segmentation fault",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "=== Source Location Trace: ===",
        "src/core/util/status_helper.cc:68",
        "",
    ):
        watch.take(line)
    assert [line.split()[0] for line in passed] == ["Fatal", "terminate"]
