"""A page about a cloud's address: its nodes and its new rounds, whatever the other end says."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from watch_server import serving

from hpfl.watch.run_sources import is_address


class Cloud(BaseHTTPRequestHandler):
    """Answers as a cloud's /status does, or otherwise."""

    said = b""
    status = 200

    def do_GET(self):
        self.send_response(self.status if self.path == "/status" else 404)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def cloud():
    server = HTTPServer(("127.0.0.1", 0), Cloud)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def status(round_number, **changes):
    nodes = [
        {"node": "cloud", "state": "running", "planned_s": 2.0, "measured_s": 3.0, "refused": 4, "misses": 1},
        {"node": "edge-0", "state": "<b>ready</b>", "refused": 4},
        {"node": "ue-0", "state": "computing"},
    ]
    record = {"round": round_number, "time_s": 1.5 * round_number, "personalised_accuracy": 0.5}
    return json.dumps({"round": round_number, "rounds": 9, "record": record, "nodes": nodes} | changes).encode()


def test_nodes_and_new_rounds_of_a_cloud_are_shown(cloud):
    Cloud.said, Cloud.status = status(3), 200
    with serving(cloud) as asked, asked.events() as events:
        assert next(events)[0] == "listening"
        (run,) = asked.told("/api/runs")["runs"]
        assert (run["kind"], run["state"], run["rounds"], run["num_edges"]) == ("deployed", "running", 3, 1)
        told = asked.told("/api/runs/r0/nodes")
        assert told["over_planned"] == [1.5, None, None]
        assert told["refused"] == [4, 4, None]
        assert told["state"][1] == "<b>ready</b>"
        time.sleep(0.5)
        Cloud.said = status(4)
        name, news = next(events)
        assert (name, news["rows"]["round"]) == ("round", [4])
        assert asked.told("/api/runs/r0/columns")["columns"]["time_s"] == [4.5, 6.0]
        assert asked.answer("/api/runs/r0/rounds/4")[0] == 404


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"{" * 9000, b'{"nodes": 7, "round": "x", "record": [1]}', status(1, nodes=["x"])]
)
def test_a_cloud_that_talks_nonsense_is_waited_for(cloud, said):
    Cloud.said, Cloud.status = said, 200
    with serving(cloud) as asked:
        assert asked.told("/api/runs")["runs"][0]["num_ues"] == 0
        assert asked.answer("/api/runs/r0/nodes")[0] == 404
        assert asked.told("/api/runs/r0/columns")["count"] in {0, 1}


def test_a_redirection_is_not_followed(cloud):
    Cloud.said, Cloud.status = status(1), 302
    with serving(cloud) as asked:
        assert asked.told("/api/runs")["runs"][0]["state"] == "waiting"


def test_an_address_is_told_from_a_folder(tmp_path, monkeypatch):
    assert is_address("http://cloud.example:9000")
    assert is_address("127.0.0.1:9000")
    assert is_address("[::1]:9000")
    assert not is_address("runs/quickstart")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run:1").mkdir()
    assert not is_address("run:1")
