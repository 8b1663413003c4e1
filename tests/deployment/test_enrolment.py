"""A node asks for its certificate with a token; its key never leaves it."""

import json
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from deployment_nodes import Certificates, Nodes, until
from typer.testing import CliRunner

from hpfl.cli_certs import certs_app
from hpfl.deployment.certificates import init_authority
from hpfl.deployment.enrolment import MOST_BODY_BYTES, EnrolmentService, enrol
from hpfl.deployment.identity import check_own_certificate
from hpfl.deployment.issued import CertificateError
from hpfl.deployment.settings import SettingsError, TlsSettings, UeNodeSettings
from hpfl.deployment.signing_requests import make_request, read_request
from hpfl.deployment.tokens import EnrolmentToken, make_token, spend_token


@pytest.fixture
def service(tmp_path):
    init_authority(tmp_path / "certs")
    with EnrolmentService(tmp_path / "certs", "127.0.0.1:0") as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.05,))
        thread.start()
        service.address = f"127.0.0.1:{service.server_address[1]}"
        yield service
        service.shutdown()
        thread.join()


def tls_in(folder, name):
    return TlsSettings(
        ca=str(folder / "ca.pem"), certificate=str(folder / f"{name}.pem"), private_key=str(folder / f"{name}.key")
    )


def hourly(service, name, **more):
    return make_token(service.folder, name, **{"role": None, "valid_s": 3600.0, **more})


def post(service, body, length=None):
    """The answer to a body, sent by hand over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(service.folder / "ca.pem")
    host, port = service.address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="enrolment") as wrapped,
    ):
        size = len(body) if length is None else length
        wrapped.sendall(b"POST /enrol HTTP/1.0\r\nContent-Length: " + str(size).encode() + b"\r\n\r\n" + body)
        answer = b""
        while more := wrapped.recv(65536):
            answer += more
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(content)


def test_a_node_enrols_with_a_token_and_its_key_stays_with_it(service, tmp_path):
    node = tmp_path / "node"
    path = enrol(node, hourly(service, "ue-7"), service.address)
    assert path == node / "ue-7.pem"
    check_own_certificate(UeNodeSettings(name="ue-7", tls=tls_in(node, "ue-7")), serves=False, connects=True)
    with pytest.raises(SettingsError, match="not made to serve"):
        check_own_certificate(UeNodeSettings(name="ue-7", tls=tls_in(node, "ue-7")), serves=True, connects=True)
    key = (node / "ue-7.key").read_bytes()
    assert (node / "ue-7.key").stat().st_mode & 0o077 == 0
    assert not any(key in file.read_bytes() for file in service.folder.iterdir())
    assert not list(node.glob("*.new.key"))


def test_a_token_is_good_once_for_one_name_and_not_for_ever(service, tmp_path):
    token = hourly(service, "ue-7")
    stored = (service.folder / "tokens.json").read_text()
    assert token.secret not in stored
    with pytest.raises(CertificateError, match="no token for 'edge-0' fits"):
        enrol(tmp_path / "a", EnrolmentToken("edge-0", token.secret, token.authority), service.address)
    enrol(tmp_path / "b", token, service.address)
    with pytest.raises(CertificateError, match="no token for 'ue-7' fits"):
        enrol(tmp_path / "c", token, service.address)
    with pytest.raises(CertificateError, match="fits: it was used, has expired"):
        enrol(tmp_path / "d", hourly(service, "ue-7", valid_s=-1.0), service.address)
    assert not (tmp_path / "d" / "ue-7.pem").exists()


def test_one_of_many_at_once_gets_a_certificate_for_a_token(service):
    token, granted = hourly(service, "ue-7"), []

    def spend():
        with suppress(CertificateError):
            granted.append(spend_token(service.folder, token.secret, "ue-7"))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 1


def test_a_secret_is_told_to_the_authority_of_its_token_alone(service, tmp_path):
    init_authority(tmp_path / "other")
    token = make_token(tmp_path / "other", "ue-7", role=None, valid_s=60.0)
    with pytest.raises(CertificateError, match="not the authority that the token names; nothing was sent"):
        enrol(tmp_path / "node", token, service.address)
    assert not (tmp_path / "node").exists()


BODIES = {
    "not JSON": b"\x80\x04pickle",
    "a list": b"[]",
    "deep": b"[" * 10_000,
    "a field missing": json.dumps({"secret": "x"}).encode(),
    "a field more": json.dumps({"secret": "x", "request": "y", "role": "cloud"}).encode(),
    "another type": json.dumps({"secret": 1, "request": "y"}).encode(),
    "no request": json.dumps({"secret": "x", "request": "y"}).encode(),
}


def test_hostile_bodies_are_refused_and_the_service_goes_on(service, tmp_path):
    for body in BODIES.values():
        status, answer = post(service, body)
        assert status == 403
        assert set(answer) == {"error"}
    for length in (MOST_BODY_BYTES + 1, "1" * 30, "-5", "x"):
        assert post(service, b"", length)[0] == 403
    with socket.create_connection(("127.0.0.1", int(service.address.split(":")[1])), timeout=5) as plain:
        plain.sendall(b"\x16\x03\x01garbage")
        enrol(tmp_path / "node", hourly(service, "ue-7"), service.address)


def test_a_request_for_another_kind_of_key_costs_no_token(service):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ue-7")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    token = hourly(service, "ue-7")
    body = {"secret": token.secret, "request": pem.public_bytes(Encoding.PEM).decode()}
    assert "another kind of key" in post(service, json.dumps(body).encode())[1]["error"]
    assert spend_token(service.folder, token.secret, "ue-7").role == "ue"


def test_no_name_is_certified_whose_files_are_the_authoritys_own(tmp_path):
    init_authority(tmp_path)
    for name, reason in (("ca", "the authority's own"), ("enrolment", "enrolment service"), ("../x", "no node name")):
        with pytest.raises(CertificateError, match=reason):
            make_token(tmp_path, name, role="ue", valid_s=60.0)


def test_an_operator_signs_a_request_and_the_node_joins_a_run(tmp_path):
    """By the commands: request at the node, token and sign at the authority, take at the node."""
    certificates = Certificates(tmp_path / "certs")
    node, run = tmp_path / "node", CliRunner()

    def hpfl(*words):
        result = run.invoke(certs_app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    hpfl("request", "ue-0", "--to", node)
    token = hpfl("token", certificates.folder, "ue-0", "--valid", "5m")
    hpfl("sign", certificates.folder, node / "ue-0.csr", "--token", token)
    again = run.invoke(certs_app, ["sign", str(certificates.folder), str(node / "ue-0.csr"), "--token", token])
    assert again.exit_code == 2
    hpfl("take", "ue-0", certificates.folder / "ue-0.pem", "--to", node)
    (node / "ca.pem").write_bytes((certificates.folder / "ca.pem").read_bytes())
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        settings = nodes.ue_settings(0).model_copy(update={"tls": tls_in(node, "ue-0")})
        nodes.ue_settings = lambda number, **where: settings
        nodes.start_ue(0)
        until(lambda: 0 in nodes.edges[0].ues.hub.children)


def test_a_request_signed_by_another_key_is_refused(tmp_path):
    pem = make_request(tmp_path, "ue-7").read_bytes()
    assert read_request(pem)[0] == "ue-7"
    der = bytearray(x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER))
    der[-1] ^= 1
    forged = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
    with pytest.raises(CertificateError, match="not signed with its key"):
        read_request(forged)


@pytest.mark.slow
def test_the_service_runs_as_a_process(tmp_path):
    init_authority(tmp_path / "certs")
    command = [sys.executable, "-c", "from hpfl.cli import main; main()", "certs", "serve", str(tmp_path / "certs")]
    with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as process:
        try:
            port = json.loads(process.stderr.readline())["port"]
            token = make_token(tmp_path / "certs", "edge-0", role=None, valid_s=600.0)
            assert Path(enrol(tmp_path / "node", token, f"127.0.0.1:{port}")).name == "edge-0.pem"
        finally:
            process.terminate()
