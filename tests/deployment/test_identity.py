"""Certificates over the life of a deployment: checked, announced, renewed, revoked, and the authority replaced."""

import asyncio
import datetime
import logging
import shutil
from pathlib import Path

import pytest
from deployment_nodes import Certificates, Nodes, audit_script, refused, until

from hpfl.deployment import attaching
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.certificates import begin_rotation, finish_rotation, issue, load_authority, renew, revoke
from hpfl.deployment.diagnosis import handshake_fault
from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.parent_proof import ParentProof, proof
from hpfl.deployment.processes import run_edge, run_ue
from hpfl.deployment.settings import EdgeNodeSettings, SettingsError, TlsSettings, UeNodeSettings

QUICK = {"gather_s": 1.0, "compute_s": 5.0, "deadline_slack_s": 1.0}
SHAPE = ("network.edges=1", "planning.max_edges=1", "training.rounds=500")
NAMES = ("cloud", "edge-0", "ue-0", "ue-1")


def days(before, after):
    now = datetime.datetime.now(datetime.UTC)
    return now + datetime.timedelta(days=before), now + datetime.timedelta(days=after)


@pytest.fixture
def own(tmp_path):
    """An authority of the test's own."""
    return Certificates(tmp_path / "certs")


class Listed(Nodes):
    """Nodes whose parents read a revocation list."""

    def edge_settings(self, number, **where):
        settings = super().edge_settings(number, **where)
        settings.tls.revoked = str(revoke(load_authority(self.certificates.folder), []))
        return settings


@pytest.fixture
def running(own, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    with Listed(own, *SHAPE, tiny=True, timing=QUICK) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path / "run", "full"))
        until(lambda: there(nodes) == {"ue-0", "ue-1"})
        nodes.play(1)
        yield nodes


def there(nodes):
    return {child.name for child in nodes.edges[0].ues.hub.children.values()}


def faults(nodes):
    """Of everybody attached, why he might not be here."""
    hubs = (nodes.deployment.cloud.hub, nodes.edges[0].ues.hub)
    return [hub._admission.why_not(child.proven) for hub in hubs for child in hub.children.values()]


def said(caplog, event):
    return [record.fields for record in caplog.records if record.message == event and hasattr(record, "fields")]


def wrong(own, folder, what):
    """A UE's files with one thing wrong with them."""
    other = Certificates(folder / "other")
    tls = own.tls("ue-0").model_copy()
    match what:
        case "key":
            tls.private_key = own.tls("ue-1").private_key
        case "authority":
            tls.ca = other.tls("ue-0").ca
        case "expired":
            issue(own.authority, folder, "ue-0", validity=days(-9, -2))
            tls.certificate, tls.private_key = str(folder / "ue-0.pem"), str(folder / "ue-0.key")
        case "early":
            issue(own.authority, folder, "ue-0", validity=days(2, 9))
            tls.certificate, tls.private_key = str(folder / "ue-0.pem"), str(folder / "ue-0.key")
        case "name":
            tls = own.tls("ue-1")
        case "no certificate":
            tls.certificate = tls.private_key
    return tls


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("key", "ue-0.pem and .*ue-1.key do not belong together"),
        ("authority", "ue-0.pem was not issued by the authority in .*ca.pem"),
        ("expired", "ue-0.pem expired on"),
        ("early", "ue-0.pem is not valid before .* clock"),
        ("name", "is the certificate of ue-1; name is 'ue-0'"),
        ("no certificate", "is not a certificate"),
    ],
)
def test_a_node_whose_own_certificate_cannot_work_does_not_start(own, tmp_path, what, reason):
    with pytest.raises(SettingsError, match=reason):
        asyncio.run(run_ue(UeNodeSettings(name="ue-0", tls=wrong(own, tmp_path, what))))


def test_a_ues_certificate_is_refused_at_the_start_of_an_edge(own):
    with pytest.raises(SettingsError, match="not made to serve others"):
        asyncio.run(run_edge(EdgeNodeSettings(name="ue-0", tls=own.tls("ue-0"))))


def test_a_node_says_whose_certificate_keeps_it_from_its_parent(running, tmp_path, caplog):
    foreign = Certificates(tmp_path / "foreign")
    address = f"127.0.0.1:{running.edge_ports[0]}"
    both = tmp_path / "both.pem"
    both.write_bytes(Path(foreign.tls("ue-0").ca).read_bytes() + Path(running.certificates.tls("ue-0").ca).read_bytes())
    shows = foreign.tls("ue-0").model_copy(update={"ca": str(both)})
    running.kill("ue-0")
    settings = running.ue_settings(0)
    for tls, reason in (
        (foreign.tls("ue-0"), "is refused here: it is not of an authority that is trusted here"),
        (shows, "edge-0 ends the connection once it sees this node's certificate, which is of CN=hpfl deployment"),
    ):
        assert reason in handshake_fault(tls, address, "edge-0")
    running.ue_settings = lambda number, **where: settings.model_copy(update={"tls": shows})
    running.start_ue(0)
    until(
        lambda: any("its own is of another authority" in one["reason"] for one in said(caplog, "certificate refused"))
    )
    issue(running.certificates.authority, tmp_path, "ue-0", validity=days(-9, -2))
    expired = TlsSettings(ca=str(both), certificate=str(tmp_path / "ue-0.pem"), private_key=str(tmp_path / "ue-0.key"))
    assert "and valid until" in handshake_fault(expired, address, "edge-0")
    assert handshake_fault(running.certificates.tls("ue-0"), address, "edge-0") == ""
    assert "Hostname mismatch" in handshake_fault(running.certificates.tls("ue-0"), address, "edge-7")


def test_a_revoked_ue_is_cut_off_and_refused_until_it_has_another_certificate(running, caplog):
    folder = running.certificates.folder
    revoke(load_authority(folder), ["ue-1"])
    running.play(watch=lambda state, record: there(running) != {"ue-0"})
    words = "identity: the certificate of 'ue-1' has been revoked"
    until(lambda: any(words in one["reason"] for one in said(caplog, "lost the parent")))
    running.kill("ue-1")
    before = refused(running.edges[0].ues.hub)["identity"]
    running.start_ue(1)
    until(lambda: refused(running.edges[0].ues.hub)["identity"] > before)
    running.play(1)
    assert list(running.deployment.cloud.delivered[0].ues) == [0]
    running.kill("ue-1")
    issue(load_authority(folder), folder, "ue-1")
    running.start_ue(1)
    until(lambda: there(running) == {"ue-0", "ue-1"})
    running.play(2)
    assert sorted(running.deployment.cloud.delivered[0].ues) == [0, 1]


class Wary(Listed):
    """Nodes whose UEs read the list too."""

    def ue_settings(self, number, **where):
        settings = super().ue_settings(number, **where)
        settings.tls.revoked = str(self.certificates.folder / "revoked.pem")
        return settings


def test_a_ue_leaves_an_edge_whose_certificate_is_revoked_until_it_has_another(own, caplog):
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    with Wary(own, *SHAPE, tiny=True, timing=QUICK) as nodes:
        nodes.start_all()
        nodes.play(2)
        assert there(nodes) == {"ue-0", "ue-1"}
        assert not said(caplog, "parent refused")
        revoke(load_authority(own.folder), ["edge-0"])
        words = "the certificate of edge-0 has been revoked"
        until(lambda: len([one for one in said(caplog, "parent refused") if one["reason"] == words]) >= 4)
        assert not any(ue.up.link.is_welcome for ue in nodes.ues.values())  # they ask again, and believe it no more
        issue(load_authority(own.folder), own.folder, "edge-0")
        until(lambda: all(ue.up.link.is_welcome for ue in nodes.ues.values()))
        nodes.play(1)
        assert sorted(nodes.deployment.cloud.delivered[0].ues) == [0, 1]


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("nothing", "proves no certificate"),
        ("stolen", "has been revoked"),
        ("another's", "shows a certificate whose key it does not have"),
        ("for another", "shows a certificate whose key it does not have"),
        ("its own", "shows a certificate that is not its own"),
        ("garbage", "shows a certificate that is not its own"),
    ],
)
def test_a_parent_is_believed_only_with_the_key_of_its_own_certificate_that_stands(own, shown, reason):
    """Whoever has the stolen key of an edge plays it: what it can show and sign is not enough."""
    stolen = OwnIdentity(own.tls("edge-0"))
    tls = own.tls("ue-0").model_copy(update={"revoked": str(revoke(own.authority, ["edge-0"]))})
    issue(own.authority, own.folder, "edge-0")
    honest, other = OwnIdentity(own.tls("edge-0")), OwnIdentity(own.tls("edge-1"))
    child = ParentProof(tls, child="ue-0", parent="edge-0")
    challenge = child.challenge()
    signed = proof(stolen, challenge, "ue-0")
    welcome = {
        "nothing": {"certificate": b"", "signature": b""},
        "stolen": signed,
        "another's": {**signed, "certificate": proof(honest, challenge, "ue-0")["certificate"]},
        "for another": proof(honest, challenge, "ue-1"),
        "its own": proof(other, challenge, "ue-0"),
        "garbage": {"certificate": b"no certificate", "signature": b"none"},
    }[shown]
    with pytest.raises(ConnectionError, match=reason):
        child.check(**welcome)
    assert child.is_owed
    child.check(**proof(honest, challenge, "ue-0"))
    assert not child.is_owed


def test_a_list_that_another_has_signed_revokes_nobody(running, tmp_path, caplog):
    foreign = Certificates(tmp_path / "foreign")
    foreign.tls("ue-1")
    shutil.copy(revoke(foreign.authority, ["ue-1"]), running.certificates.folder / "revoked.pem")
    until(lambda: said(caplog, "revocations not changed"))
    assert "not signed by an authority" in said(caplog, "revocations not changed")[0]["reason"]
    assert there(running) == {"ue-0", "ue-1"}


def test_all_certificates_and_the_authority_are_replaced_while_rounds_go_on(running, tmp_path, caplog):
    folder = running.certificates.folder
    begin_rotation(folder)
    until(lambda: len(said(caplog, "certificate changed")) == 5)  # an edge is a child and a parent
    assert running.play(1)
    for name in NAMES:
        renew(load_authority(folder), folder, name)
    until(lambda: len(said(caplog, "certificate changed")) == 10)
    assert running.play(1)
    assert not said(caplog, "lost the parent")  # nobody was cut off for it
    finish_rotation(folder)
    until(lambda: any("no longer trusted" in one["reason"] for one in said(caplog, "lost the parent")))
    until(lambda: all("no longer trusted" not in why for why in faults(running)) and len(faults(running)) == 3)
    running.play(2)
    assert sorted(running.deployment.cloud.delivered[0].ues) == [0, 1]
    assert audit_script.audit(tmp_path / "run")["rounds"] == running.state.round


def test_an_end_within_thirty_days_is_announced_at_both_ends(own, caplog):
    own.tls("ue-0")
    issue(own.authority, own.folder, "ue-0", validity=days(-1, 20))
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    with Nodes(own, *SHAPE, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        until(lambda: {one["whose"] for one in said(caplog, "certificate expires soon")} == {"this node", "ue-0"})
        gauge = nodes.edges[0].ues.hub.metrics.expires
        until(lambda: 19 < gauge.labels("children")._value.get() / 86_400 < 20)
        assert 364 < gauge.labels("own")._value.get() / 86_400 < 365


def lasting(own, name, seconds):
    """A certificate that was issued a day ago and ends soon."""
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    issue(own.authority, own.folder, name, validity=(days(-1, 0)[0], end))


@pytest.mark.parametrize("renewed", [False, True])
def test_a_stream_ends_with_its_certificate(own, caplog, renewed, monkeypatch):
    monkeypatch.setattr(attaching, "_LONGEST_LOOK_S", 0.5)
    own.tls("ue-0")
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    with Nodes(own, *SHAPE, tiny=True, timing=QUICK) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        lasting(own, "ue-0", 30 if renewed else 3)
        nodes.start_ue(0)
        until(lambda: there(nodes) == {"ue-0"})
        first = nodes.edges[0].ues.hub.children[0]
        if renewed:  # its node connects anew before that
            renew(own.authority, own.folder, "ue-0")
            until(lambda: said(caplog, "connecting anew with another certificate"))
            until(lambda: nodes.edges[0].ues.hub.children.get(0) not in {None, first})
        else:
            until(lambda: any("'ue-0' expired on" in one["reason"] for one in said(caplog, "lost the parent")))
            assert not there(nodes)
