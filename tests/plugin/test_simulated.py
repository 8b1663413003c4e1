"""A simulated run that uses all spare parts by their names: what becomes of it when it is killed, and without each."""

import json
import signal
import subprocess
import sys

import pytest
from plugin_runs import EVERYTHING, FOUR_EDGES, WITHOUT

SHORT = [*FOUR_EDGES, "training.rounds=4"]
FILES = ("model.safetensors", "rounds.jsonl", "rounds.csv", "ues.csv")
CHANGED = {
    "channel": {"rounds.jsonl", "ues.csv"},
    "metric": {"rounds.jsonl", "ues.csv"},
    "watcher": {"rounds.csv"},
    "clock": {"rounds.jsonl", "rounds.csv"},
}
"""What each part changes; all others change what is learned."""

RUNS = """
import json, os, signal, sys, hpfl

class Killer(hpfl.Watcher):
    def round(self, state, record):
        if record.round == 3:
            os.kill(os.getpid(), signal.SIGKILL)

source, folder, how, small, variants = *sys.argv[1:4], *map(json.loads, sys.argv[4:])
watchers = [Killer()] if how == "killed" else []
for name, changes in variants.items():
    given = {"out": f"{folder}/{name}", "resume": how == "resumed", "figures": False, "hooks": hpfl.Hooks()}
    hpfl.run(hpfl.load(source, overrides=[*small, *changes]), watchers=watchers, **given)
"""


def played(folder, environment, *, how="whole", without):
    """A process that plays runs of everything but what is missing, each in a folder of that name."""
    given = [EVERYTHING, folder, how, json.dumps(SHORT), json.dumps(without)]
    words = [sys.executable, "-c", RUNS, *map(str, given)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=280, check=False)


def left(folder):
    """What a run leaves, but for what its wall clock says."""
    found = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    rows = [json.loads(line) for line in found["rounds.jsonl"].splitlines()]
    return {**found, "rounds.jsonl": [{**row, "planning_s": None} for row in rows]}


@pytest.fixture(scope="module")
def runs(environment, tmp_path_factory):
    """Runs of four rounds with everything, and of everything but one part, by what is missing."""
    folder, without = tmp_path_factory.mktemp("runs"), {"nothing": [], **WITHOUT}
    done = played(folder, environment, without=without)
    assert done.returncode == 0, done.stderr
    return {missing: left(folder / missing) for missing in without}


def test_a_run_with_all_parts_is_killed_and_goes_on_to_the_same_results(runs, environment, tmp_path):
    killed = played(tmp_path, environment, how="killed", without={"nothing": []})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "nothing" / "model.safetensors").exists()
    resumed = played(tmp_path, environment, how="resumed", without={"nothing": []})
    assert resumed.returncode == 0, resumed.stderr
    assert left(tmp_path / "nothing") == runs["nothing"]


@pytest.mark.parametrize("missing", WITHOUT)
def test_without_any_one_part_the_model_or_the_record_is_another(runs, missing):
    changed = {name for name in FILES if runs["nothing"][name] != runs[missing].get(name)}
    assert changed >= CHANGED.get(missing, {"model.safetensors", "rounds.jsonl", "ues.csv"})
    assert (missing == "watcher") == ("rounds.csv" not in runs[missing])
