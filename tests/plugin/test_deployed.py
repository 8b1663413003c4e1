"""All parts of the example package in a deployment of 2 edges with 3 UEs each, of which every node is killed once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from plugin_runs import EVERYTHING, SMALL, hpfl_command
from safetensors.numpy import load_file

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "scripts" / "audit_recurrence.py"
BODY = 784 * 100 + 100
"""Parameters that travel: all but the last layer."""
CHANGES = [
    *SMALL,
    "training.rounds=5",
    "evaluation.every=5",
    "planning.planner_options.rest=0",
    'training.watchers=["rounds-csv", "gate:Gate"]',
]


def deployed(folder, environment, *changes):
    """What the driver says of a deployment in `folder`."""
    command = [sys.executable, str(HERE / "deployed_driver.py"), str(folder), str(EVERYTHING), *changes, *CHANGES]
    path = os.pathsep.join([environment["PYTHONPATH"], str(HERE)])
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def killed(tmp_path_factory, environment):
    folder = tmp_path_factory.mktemp("killed")
    return folder, deployed(folder, environment, "--kill")


def test_killed_one_by_one_all_nodes_come_to_the_model_of_the_simulated_twin(killed, tmp_path, environment):
    """Rounding of one number to eight bits may go either way where the last bit of its update differs; few do."""
    folder, told = killed
    assert told["status"] == 0
    assert set(told["restarts"].values()) == {1}
    changes = [word for change in [*CHANGES, "training.watchers=[]"] for word in ("--set", change)]
    hpfl_command(["run", EVERYTHING, "--out", tmp_path / "twin", "-q", *changes], environment)
    model, twin = (load_file(place / "model.safetensors") for place in (folder / "run", tmp_path / "twin"))
    apart = np.concatenate([np.abs(model[name] - twin[name]).ravel() for name in twin])
    assert np.sum(apart > 1e-6) < 20
    assert apart.max() < 1e-2


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_one_by_one_all_nodes_come_to_the_bits_of_a_deployment_that_nothing_happened_to(
    killed, tmp_path, environment
):
    folder, _ = killed
    assert deployed(tmp_path, environment)["status"] == 0
    calm = tmp_path / "run" / "model.safetensors"
    assert (folder / "run" / "model.safetensors").read_bytes() == calm.read_bytes()


def test_the_audit_recomputes_it_with_the_rule_of_the_package(killed, environment):
    folder, _ = killed
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder / "run")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 rounds, 10 updates" in done.stdout
    assert "1 superseded" in done.stdout  # the round that the cloud was killed in


def test_every_ue_keeps_a_head_of_its_own_and_the_cloud_has_none_of_them(killed):
    folder, _ = killed
    newest = [max((folder / "state" / f"ue-{ue}").iterdir()) for ue in range(6)]
    heads = [load_file(path)["method"] for path in newest]
    assert len({head.tobytes() for head in heads}) == 6
    model = load_file(folder / "run" / "model.safetensors")
    start = load_file(min((folder / "run" / "audit").glob("start-*")))["params"]
    assert np.array_equal(model["3.weight"].ravel(), start[BODY : BODY + 1000])
    assert not np.array_equal(model["1.weight"].ravel(), start[:78400])


def test_figures_bits_and_the_csv_are_those_of_the_parts(killed):
    folder, _ = killed
    rounds = [json.loads(line) for line in (folder / "run" / "rounds.jsonl").read_text().splitlines()]
    table = pd.read_csv(folder / "run" / "rounds.csv")
    assert table["round"].tolist() == [1, 2, 3, 4, 5]
    assert table["uplink_bits"].tolist() == [record["uplink_bits"] for record in rounds]
    assert 0 <= rounds[-1]["personalised_calibration_error"] <= 1
    ues = pd.read_csv(folder / "run" / "ues.csv")
    assert ues["personalised_calibration_error"].between(0, 1).all()
    coded = BODY * 8 + -(-BODY // 512) * 32
    sketches = (6 + 2) * 64 * 64
    assert rounds[-1]["uplink_bits"] == 6 * coded + 2 * BODY * 32 + sketches
