"""Nodes answer over HTTP whether they are alive, whether they do their part, and what they have done."""

import urllib.error
import urllib.request
from functools import partial

from deployment_nodes import Nodes, until

from hpfl.deployment.health import Health, serve_status
from hpfl.deployment.local import free_ports
from hpfl.deployment.readiness import cloud_ready, edge_ready, ue_ready


def got(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def served(nodes, registry, ready):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    return address, serve_status(address, registry, Health(nodes.loop.loop, ready))


def test_nodes_say_when_they_are_ready_and_what_they_wait_for(certificates):
    with Nodes(certificates, "training.rounds=2", tiny=True) as nodes:
        cloud = nodes.start_cloud().cloud
        edge = nodes.start_edge(0)
        nodes.start_edge(1)
        at, stops = {}, []
        for name, registry, ready in (
            ("cloud", cloud.metrics.registry, partial(cloud_ready, cloud, 2)),
            ("edge", edge.ues.side.metrics.registry, partial(edge_ready, edge)),
        ):
            at[name], stop = served(nodes, registry, ready)
            stops.append(stop)
        until(lambda: got(at["edge"], "/readyz")[1] == "waits for its UEs\n")
        assert got(at["edge"], "/readyz")[0] == 503
        assert got(at["edge"], "/healthz") == (200, "ok\n")
        ues = [nodes.start_ue(number) for number in range(4)]
        at["ue"], stop = served(nodes, ues[0].metrics.registry, partial(ue_ready, ues[0]))
        stops.append(stop)
        until(lambda: all(got(address, "/readyz")[0] == 200 for address in at.values()))
        assert got(at["cloud"], "/readyz")[1] == "listening, 2 of 2 edges attached\n"
        nodes.play()
        told = got(at["ue"], "/metrics")[1]
        assert "hpfl_parent_attached 1.0" in told
        assert "hpfl_ue_updates_sent_total 2.0" in told
        assert "hpfl_ue_compute_seconds_count" in told
        nodes.stop_cloud()
        until(lambda: got(at["edge"], "/readyz") == (503, "waits for its cloud\n"))
        assert got(at["cloud"], "/readyz") == (503, "does not listen\n")
        nodes.kill("edge-0")
        until(lambda: got(at["ue"], "/readyz") == (503, "waits for its edge\n"))
        assert "hpfl_parent_attached 0.0" in got(at["ue"], "/metrics")[1]
        for stop in stops:
            stop()


def test_a_node_that_is_stuck_is_not_healthy(certificates, monkeypatch):
    import threading

    import prometheus_client

    monkeypatch.setattr("hpfl.deployment.health._ANSWER_S", 0.2)
    with Nodes(certificates, tiny=True) as nodes:
        address, stop = served(nodes, prometheus_client.CollectorRegistry(), lambda: (True, "ready"))
        assert got(address, "/healthz") == (200, "ok\n")
        gate = threading.Event()
        nodes.loop.loop.call_soon_threadsafe(gate.wait)
        assert got(address, "/healthz")[0] == got(address, "/readyz")[0] == 503
        gate.set()
        until(lambda: got(address, "/readyz") == (200, "ready\n"))
        stop()
