"""Runs a deployment of the example package's parts in a process that has them; with --kill it kills every node in turn.

    python deployed_driver.py FOLDER EVERYTHING.toml [--kill] CHANGE...

After the first round each UE is killed with its update, after the second each edge, after the third the cloud, before
it has saved that round. Nobody goes on without them, so the run must come to the same model.
"""

import json
import sys
import time
from pathlib import Path

from gate import SHUT

import hpfl
from hpfl.deployment.local import LocalOptions, Supervisor, lay_out

TIMING = {"gather_s": 600.0, "compute_s": 100.0, "deadline_slack_s": 60.0, "retry_s": 0.1, "evaluate_s": 60.0}
TIMING |= {"least_wait_s": 100.0, "settle_s": 30.0}  # whoever is killed is waited for


def main() -> None:
    folder, source, *changes = sys.argv[1:]
    killing = "--kill" in changes
    changes = [change for change in changes if change != "--kill"]
    nodes = lay_out(Path(folder), hpfl.load(source, overrides=changes), LocalOptions(paced=False, timing=TIMING))
    supervisor = Supervisor(nodes)
    supervisor.start()
    killer = Killer(supervisor, nodes, Path(folder), killing=killing)
    try:
        status = supervisor.watch(killer, every_s=0.02)
    finally:
        supervisor.stop()
    print(json.dumps({"status": status, "restarts": supervisor.restarts}))


class Killer:
    """Told over and over. Behind the shut gate it kills whose turn it is, one by one, and opens when all are back."""

    def __init__(self, supervisor, nodes, folder, *, killing) -> None:
        self.supervisor, self.run = supervisor, folder / "run"
        self.folder, self.killed_at = folder, {}
        role = {1: "ue", 2: "edge", 3: "cloud"}
        self.turns = {number: [n.name for n in nodes if killing and n.role == role[number]] for number in role}
        self.round = 1

    def __call__(self) -> None:
        if self.round > SHUT or not (self.run / f"waits-{self.round}").exists():
            return
        if self.turns[self.round]:
            name = self.turns[self.round].pop(0)
            self.killed_at[name] = time.time()
            self.supervisor.processes[name].kill()
            self.supervisor.processes[name].wait()
        elif all(self.is_back(name) for name in self.killed_at):
            (self.run / f"open-{self.round}").touch()
            self.round, self.killed_at = self.round + 1, {}

    def is_back(self, name) -> bool:
        """A UE has computed its update again; an edge or a cloud runs again."""
        if not name.startswith("ue"):
            return self.supervisor.restarts[name] > 0
        kept = (path.stat().st_mtime for path in (self.folder / "state" / name).glob("*.safetensors"))
        return max(kept, default=0.0) > self.killed_at[name]


main()
