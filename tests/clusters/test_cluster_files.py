"""What docs/scale.md hands out for SLURM and Kubernetes: it can be read, and says what the page says it does."""

import inspect
import shlex
import subprocess
from pathlib import Path

import pytest
from plain_yaml import documents

from hpfl.cli_run import run_command
from hpfl.cli_sweep import sweep_command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def job():
    return documents((ROOT / "deploy" / "kuberay.yaml").read_text(encoding="utf-8"))[0]


def accepted(arguments):
    """Whether the command line knows every option of a command."""
    name, *rest = arguments
    command = {"run": run_command, "sweep": sweep_command}[name]
    known = {f"--{parameter.rstrip('_').replace('_', '-')}" for parameter in inspect.signature(command).parameters}
    return all(word in known for word in rest if word.startswith("--"))


def test_the_job_of_kubernetes_is_a_command_that_exists_with_tokens_on(job):
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[0] == "hpfl"
    assert accepted(words[1:])
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    wanted = int(words[words.index("--workers") + 1]) * int(words[words.index("--cpus-per-worker") + 1])
    groups = cluster["workerGroupSpecs"]
    assert sum(int(own["replicas"]) * int(own["rayStartParams"]["num-cpus"]) for own in groups) >= wanted


def test_the_version_of_ray_is_the_one_that_is_tested(job):
    pinned = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("ray==")]
    assert pinned == [f"ray=={job['spec']['rayClusterSpec']['rayVersion']}"]


def test_only_the_nodes_reach_the_ports():
    policy = documents((ROOT / "deploy" / "kuberay.yaml").read_text(encoding="utf-8"))[1]
    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_the_script_for_slurm_is_bash_and_turns_tokens_on():
    script = ROOT / "deploy" / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text(encoding="utf-8")
    assert "export RAY_AUTH_MODE=token" in text
    assert not accepted(["run", "--engines"])
    assert accepted(["run", "--engine", "ray", "--address"])
    assert accepted(["sweep", "--engine", "ray", "--address"])
