"""Who sits where may change while rounds go on: shut out, let in, another node in a slot."""

import logging
import time

import pytest
from deployment_nodes import Nodes, audit_script, until

from hpfl.deployment.audit import AuditLog
from hpfl.deployment.node import SharedWork
from hpfl.deployment.rosters import ChildRoster, seats_in
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.status import Board

QUICK = {"gather_s": 1.0, "compute_s": 5.0, "deadline_slack_s": 1.0}
SHAPE = ("network.edges=1", "network.ues_per_edge=3", "planning.max_edges=1", "training.rounds=500")


class Rostered(Nodes):
    """One edge whose UEs are named in a file."""

    def __init__(self, certificates, folder, **options):
        super().__init__(certificates, *SHAPE, tiny=True, timing=QUICK, **options)
        self.file = folder / "ues.txt"
        self.file.write_text("# UEs of edge-0\nue-0\nue-1\nue-2\n", encoding="utf-8")
        self.names = {}

    def edge_settings(self, number, **where):
        return super().edge_settings(number, **where).model_copy(update={"ues_file": str(self.file)})

    def ue_settings(self, number, **where):
        name = self.names.get(number, f"ue-{number}")
        changed = {"name": name, "tls": self.certificates.tls(name)}
        return super().ue_settings(number, **where).model_copy(update=changed)

    @property
    def there(self):
        return {child.name for child in self.edges[0].ues.hub.children.values()}

    def write(self, *names):
        """As an editor does that writes another file and puts it in the place of the first."""
        other = self.file.with_suffix(".new")
        other.write_text("\n".join(names) + "\n", encoding="utf-8")
        other.replace(self.file)

    def delivered(self):
        return sorted(self.deployment.cloud.delivered[0].ues)


@pytest.fixture
def fleet(certificates, tmp_path):
    with Rostered(certificates, tmp_path) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path / "run", "full"))
        until(lambda: len(nodes.there) == 3)
        nodes.play(1)
        yield nodes


def test_a_roster_changes_while_rounds_go_on(fleet, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    assert fleet.delivered() == [0, 1, 2]
    fingerprint = SharedWork(fleet.edge_settings(0)).fingerprint
    fleet.write("ue-0", "-", "ue-2")
    fleet.play(watch=lambda state, record: fleet.there != {"ue-0", "ue-2"})
    until(lambda: "identity: 'ue-1' is no longer among this node's children" in told_to_children(caplog))
    fleet.play(2)
    assert fleet.delivered() == [0, 2]

    fleet.write("ue-0", "ue-1", "ue-2")
    until(lambda: fleet.there == {"ue-0", "ue-1", "ue-2"})  # it has asked again by itself

    fleet.names[1] = "ue-77"
    fleet.write("ue-0", "ue-77", "ue-2")
    until(lambda: "ue-77" in fleet.edges[0].ues.side.roster)
    fleet.kill("ue-1")
    fleet.start_ue(1)
    until(lambda: fleet.there == {"ue-0", "ue-77", "ue-2"})
    fleet.play(2)
    assert fleet.delivered() == [0, 1, 2]
    shown = [row.node for row in Board(fleet.deployment.cloud, edges={"edge-0": 0}, num_ues=3).rows()]
    assert shown == ["cloud", "edge-0", "ue-0", "ue-77", "ue-2"]  # the cloud knows of the other name
    assert SharedWork(fleet.edge_settings(0)).fingerprint == fingerprint
    assert audit_script.audit(tmp_path / "run")["rounds"] == fleet.state.round


def told_to_children(caplog):
    """Why children lost their parent, as they log it."""
    return " ".join(str(record.__dict__) for record in caplog.records if record.message == "lost the parent")


def test_a_faulty_roster_changes_nothing_and_says_where(fleet, caplog):
    for lines, reason in (
        (["ue-0", "ue-1", "ue-0"], "line 3: 'ue-0' sits at line 1 already"),
        (["# nobody"], "names nobody"),
    ):
        caplog.clear()
        fleet.write(*lines)
        until(lambda reason=reason: any(reason in str(record.__dict__) for record in caplog.records), 10)
        assert fleet.there == {"ue-0", "ue-1", "ue-2"}
    fleet.play(1)
    assert fleet.delivered() == [0, 1, 2]


def test_a_name_is_taken_off_a_list_and_the_others_keep_their_numbers():
    assert dict(ChildRoster(range(3, 6), ["ue-3", "ue-5"], what="ues")) == {"ue-3": 3, "ue-5": 5}
    assert dict(ChildRoster(range(3), ["a", "-", "c"], what="ues")) == {"a": 0, "c": 2}
    with pytest.raises(SettingsError, match="'c' does not end with a number from 0 to 2"):
        ChildRoster(range(3), ["c", "a"], what="ues")
    with pytest.raises(SettingsError, match="both given"):
        ChildRoster(range(1), ["a"], what="ues", file="ues.txt")


def test_a_roster_file_has_limits(tmp_path):
    path = tmp_path / "ues.txt"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not a list of names"):
        seats_in(path, range(3))
    path.write_bytes(b"#" * 5_000_000)
    with pytest.raises(SettingsError, match="5000000 bytes"):
        seats_in(path, range(3))
    path.write_text("ue-0\nue-1\nue-2\nue-3")
    with pytest.raises(SettingsError, match="lists 4 names; the experiment has 3"):
        seats_in(path, range(3))
    path.write_text("x" * 64)
    with pytest.raises(SettingsError, match="line 1"):
        seats_in(path, range(1))


def test_an_empty_slot_is_not_waited_for(certificates, tmp_path):
    with Rostered(certificates, tmp_path) as nodes:
        nodes.write("ue-0", "-", "-")
        nodes.common["timing"].gather_s = 300.0
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        began_s = time.monotonic()
        nodes.play(1)
        assert time.monotonic() - began_s < 150.0
        assert nodes.delivered() == [0]
        nodes.write("ue-0", "ue-1", "-")  # a slot that was empty when its edge was started
        nodes.start_ue(1)
        until(lambda: nodes.there == {"ue-0", "ue-1"})
        nodes.play(2)
        assert nodes.delivered() == [0, 1]


def test_an_edge_is_shut_out_and_let_in_by_the_clouds_file_while_rounds_go_on(certificates, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="hpfl.deployment")
    file = tmp_path / "edges.txt"
    file.write_text("edge-0\nedge-1\n", encoding="utf-8")

    def write(text):
        file.with_suffix(".new").write_text(text, encoding="utf-8")
        file.with_suffix(".new").replace(file)

    shape = ("network.ues_per_edge=1", "training.rounds=500")
    with Nodes(certificates, *shape, tiny=True, timing=QUICK, edges_file=str(file)) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path / "run", "full"))
        hub = nodes.deployment.cloud.hub
        until(lambda: len(hub.children) == 2)
        nodes.play(watch=lambda state, record: record.aggregated != (0, 1))
        write("edge-0\n-\n")
        nodes.play(watch=lambda state, record: hub.children.keys() != {0})
        until(lambda: "identity: 'edge-1' is no longer among this node's children" in told_to_children(caplog))
        nodes.play(2)
        assert nodes.record.aggregated == (0,)
        write("edge-0\nedge-0\n")
        until(lambda: any("sits at line 1 already" in str(record.__dict__) for record in caplog.records), 10)
        assert hub.children.keys() == {0}
        write("edge-0\nedge-1\n")
        until(lambda: hub.children.keys() == {0, 1})  # it has asked again by itself
        nodes.play(watch=lambda state, record: record.aggregated != (0, 1))
        assert nodes.record.aggregated == (0, 1)
        assert audit_script.audit(tmp_path / "run")["rounds"] == nodes.state.round
