"""A page's server in a thread, and ways to ask it; runs to show, and long ones made of them."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

import hpfl
from hpfl.watch.page_answers import FolderAnswers
from hpfl.watch.run_sources import Sources
from hpfl.watch.serving import PageAddress, PageServer

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=4",
    "data.samples_per_ue=[5, 15]",
    "evaluation.test_samples=10",
    "planning.max_edges=2",
    "training.rounds=6",
    "training.checkpoint_every=2",
]


def played(folder, *changes, **how):
    """A small run in a folder."""
    hpfl.run(hpfl.load("quickstart", overrides=[*SMALL, *changes]), out=folder, figures=False, **how)
    return folder


def lines_of(folder, name="rounds.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def lengthened(folder, target, rounds):
    """A run of as many rounds as wanted, made of the lines of a short one."""
    target.mkdir()
    (target / "config.toml").write_bytes((folder / "config.toml").read_bytes())
    for name in ("rounds.jsonl", "scenes.jsonl"):
        few = (folder / name).read_bytes().splitlines(keepends=True)
        heads = [line.index(b",") for line in few]
        with (target / name).open("wb") as file:
            for number in range(1, rounds + 1):
                at = (number - 1) % len(few)
                file.write(b'{"round": %d' % number + few[at][heads[at] :])
    return target


class Asked:
    """Asks a server as a browser would."""

    def __init__(self, address):
        self.address = address
        self.host, _, port = address.split("//")[1].split("/")[0].rpartition(":")
        self.port = int(port)

    def answer(self, path, *, method="GET", **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request(method, path, headers=headers)
        found = connection.getresponse()
        content = found.read()
        connection.close()
        return found.status, dict(found.getheaders()), content

    def told(self, path, **headers):
        status, _, content = self.answer(path, **headers)
        assert status == 200, (path, status, content[:300])
        return json.loads(content)

    @contextmanager
    def events(self):
        """An iterator over events, as name and data."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", "/api/events")
        stream = connection.getresponse()
        assert stream.getheader("content-type").startswith("text/event-stream")
        try:
            yield _events(stream)
        finally:
            connection.close()


def _events(stream):
    name = ""
    for raw in iter(stream.readline, b""):
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
        elif line.startswith(": listening"):
            yield "listening", None


@contextmanager
def serving(*folders, to_come=False, **place):
    """A server of these runs, on a port of its own."""
    server = PageServer(FolderAnswers(Sources.of(folders, to_come=to_come)), PageAddress(port=0, **place))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        asked = Asked(server.address)
        if not place.get("tls_cert"):
            _until(lambda: asked.answer("/api/runs")[0])
        yield asked
    finally:
        server.stop()
        thread.join(30)


def _until(works, seconds=30.0):
    end = time.monotonic() + seconds
    while True:
        try:
            return works()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
