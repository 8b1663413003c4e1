"""Watchers of a deployed run: two edges with three UEs each, over loopback."""

import json
import socket

import numpy as np
import pytest
from deployment_nodes import Nodes, Tiny, audit_script, until

from hpfl.deployed import run_cloud
from hpfl.deployment.settings import SettingsError
from hpfl.learning import NonFiniteUpdateError
from hpfl.reporting import read_rounds, read_summary
from hpfl.stopping import Stop
from hpfl.training.cloud_step import DivergedError
from watching import Clumsy, Diary


class Deployed(Nodes):
    """A deployment whose cloud is run from its file's settings to its results, by whoever calls `run`."""

    def __init__(self, certificates, out, *overrides):
        size = ("network.ues_per_edge=3", "evaluation.every=2")
        super().__init__(certificates, *size, *overrides, tiny=True, out=str(out))

    def __exit__(self, *exit_info):
        until(lambda: all(task.done() for task in self.tasks.values()))  # the cloud has told everybody that it is over
        super().__exit__(*exit_info)

    def run(self, *watchers, stop=None, learner=None):
        """Run the cloud; the others are started once it listens, or come back by themselves."""

        def listening(port):
            if self.edges:
                return
            self.cloud_port = port
            self.cloud_settings.listen = f"127.0.0.1:{port}"
            for edge in range(2):
                self.start_edge(edge)
            for ue in range(6):
                self.start_ue(ue, learner=learner and learner(ue, self.experiment))

        return run_cloud(self.cloud_settings, stop=stop or Stop(), listening=listening, watchers=watchers)


def test_a_watcher_of_a_deployed_run_hears_it_all_and_one_that_fails_changes_nothing(certificates, tmp_path, caplog):
    diary, clumsy = Diary(), Clumsy("round")
    with Deployed(certificates, tmp_path) as nodes:
        assert nodes.run(clumsy, diary)
    assert diary.lines == [
        "started after 0 of 3",
        *("round 1", "saved 1", "round 2", "evaluated 2", "saved 2", "round 3", "evaluated 3", "saved 3"),
        "ended completed",
    ]
    assert clumsy.told == ["started", "round"]
    assert [entry.fields["note"] for entry in caplog.records if entry.message == "watcher failed"] == [
        "watcher Clumsy failed in `round` (ZeroDivisionError: by nothing) and is told nothing more; the run goes on"
    ]
    scenes = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert [scene["links"]["edge"] for scene in scenes] == [record["scheduled"] for record in read_rounds(tmp_path)]
    assert len(scenes[0]["ue_places"]["x_m"]) == 6
    assert (diary.run.folder, diary.run.deployed, diary.run.num_ues) == (tmp_path, True, 6)
    assert diary.records == read_rounds(tmp_path) == diary.result.rounds
    _, columns, ues = diary.figures[-1]
    assert ues.tolist() == list(range(6))
    assert columns["personalised_accuracy"].tolist() == [0.75] * 6
    np.testing.assert_array_equal(columns["loss"], diary.result.ues["loss"])
    assert read_summary(tmp_path)["completed"]
    assert json.loads((tmp_path / "status.json").read_text())["round"] == 3
    assert audit_script.audit(tmp_path)["rounds"] == 3


def test_a_cloud_that_is_stopped_says_so_and_started_again_goes_on(certificates, tmp_path):
    stop, again = Stop(), Diary()
    diary = Diary(on_round=lambda record: record.round == 2 and stop.ask())
    with Deployed(certificates, tmp_path) as nodes:
        assert not nodes.run(diary, stop=stop)
        assert diary.lines[-4:] == ["round 2", "evaluated 2", "saved 2", "ended stopped"]
        assert not (tmp_path / "summary.json").exists()
        assert nodes.run(again)
    assert again.lines == ["started after 2 of 3", "round 3", "evaluated 3", "saved 3", "ended completed"]
    assert again.result.rounds[:2] == diary.records
    counts = audit_script.audit(tmp_path)
    assert (counts["starts"], counts["rounds"], counts["superseded"]) == (2, 3, 0)


def test_a_cloud_that_cannot_listen_has_failed(certificates, tmp_path):
    diary = Diary()
    with Deployed(certificates, tmp_path) as nodes, socket.create_server(("127.0.0.1", 0)) as taken:
        nodes.cloud_settings.listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingsError):
            nodes.run(diary)
    assert diary.lines == ["started after 0 of 3", "ended failed"]


class Lost(Tiny):
    """Computes on the first model alone."""

    def update(self, params, *, base_round, edge_round):
        if base_round:
            raise NonFiniteUpdateError("the update of group 0 is not finite")
        return super().update(params, base_round=base_round, edge_round=edge_round)


def test_a_deployed_run_that_diverges_ends_with_what_it_had(certificates, tmp_path):
    diary = Diary()
    with Deployed(certificates, tmp_path) as nodes, pytest.raises(DivergedError, match="after round 1 has diverged"):
        nodes.run(diary, learner=Lost)
    assert diary.lines == ["started after 0 of 3", "round 1", "saved 1", "ended diverged"]
    summary = read_summary(tmp_path)
    assert (summary["diverged"], summary["completed"], summary["rounds"]) == (True, False, 1)
    assert diary.result.summary["rounds"] == 1
