"""The nodes of a real deployment on the page: what the cloud's board says, and that a UE is gone and comes back."""

import json
import sys
import time
from pathlib import Path

import pytest
from page_browser import browser_or_skip, open_page
from watch_server import serving

sys.path.insert(0, str(Path(__file__).parents[1] / "deployment"))

from deployment_nodes import Certificates, Nodes

from hpfl.deployed import run_cloud
from hpfl.stopping import Stop
from hpfl.training.watching import Watcher

pytest.importorskip("starlette")
MOST_ROUNDS = 5_000
PATIENCE_S = 60.0


class Deployed(Nodes):
    """Two edges with two UEs each, over loopback; the cloud runs in the caller's thread."""

    def run(self, watcher, stop):
        def listening(port):
            self.cloud_port = port
            for edge in range(2):
                self.start_edge(edge)
            for ue in range(4):
                self.start_ue(ue)

        return run_cloud(self.cloud_settings, stop=stop, listening=listening, watchers=[watcher])


class Looker(Watcher):
    """Looks at the page between rounds: all are there, one UE is ended and started again; then it stops the run."""

    def __init__(self, nodes, folder, page, stop):
        self.nodes, self.folder, self.page, self.stop = nodes, folder, page, stop
        self.seen = {}

    def round(self, state, record):
        rounds = [row["round"] for row in self.board()]
        if record.round == 2:
            self.page.wait_for_selector("dd[data-fact=round]:not(:text-is('–'))")
            self.seen["all"] = self.agreed()
            self.nodes.kill("ue-0")
        elif "all" in self.seen and "gone" not in self.seen and rounds[3] is None and rounds[4] is not None:
            self.seen["gone"] = self.agreed()
            self.nodes.start_ue(0)
        elif "gone" in self.seen and rounds[3] is not None:
            self.seen["back"] = self.agreed()
            self.stop.ask()

    def board(self):
        return json.loads((self.folder / "status.json").read_text())["nodes"]

    def agreed(self):
        """The rows on the page, once they are those of the board."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            board = [[row["node"], row["state"], told(row["round"])] for row in self.board()]
            if (shown := self.rows()) == board:
                return shown
            self.page.wait_for_timeout(100)
        return f"the board has {board}, the page {shown}"

    def rows(self):
        """Name, state and round of every node, as the page's table has them."""
        body = self.page.locator("section[aria-label='Nodes'] tbody tr")
        return body.evaluate_all(
            "rows => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))"
        )


def told(number):
    return "–" if number is None else str(number)


def test_the_page_shows_the_nodes_of_a_real_deployment_and_a_ue_that_is_gone(tmp_path):
    certificates, folder, stop = Certificates(tmp_path / "certificates"), tmp_path / "run", Stop()
    size = (f"training.rounds={MOST_ROUNDS}", "training.checkpoint_every=10000")
    with (
        browser_or_skip() as browser,
        serving(folder, to_come=True) as asked,
        Deployed(certificates, *size, tiny=True, out=str(folder)) as nodes,
    ):
        page = open_page(browser, f"{asked.address}#view=nodes", wait=False)
        looker = Looker(nodes, folder, page, stop)
        assert not nodes.run(looker, stop)
        assert page.complaints == []
    names = ["cloud", "edge-0", "edge-1", "ue-0", "ue-1", "ue-2", "ue-3"]
    assert [row[0] for row in looker.seen["all"]] == names
    assert looker.seen["gone"][3] == ["ue-0", "computing", "–"]
    assert looker.seen["gone"][4][2] != "–"
    assert looker.seen["back"][3][1] == "ready"
