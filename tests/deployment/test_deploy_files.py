"""The units, the compose file and the manifest in deploy/ are well formed, and what they name is there in the code."""

import configparser
import json
import re
import shutil
import subprocess
import tomllib
import urllib.request
from pathlib import Path

import prometheus_client
import pytest
from plain_yaml import documents

from hpfl.cli import COMMANDS, real_command
from hpfl.deployment.health import serve_status
from hpfl.deployment.local import free_ports
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, UeNodeSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
KINDS = {"cloud": CloudNodeSettings, "edge": EdgeNodeSettings, "ue": UeNodeSettings}
MANIFEST = documents((DEPLOY / "kubernetes.yaml").read_text())
SERVICES = documents((DEPLOY / "compose.yaml").read_text())[0]["services"]
METRICS_PORT = 9100


def unit(path):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(path)
    return parser


def own_port(role):
    return int(KINDS[role].model_fields["listen"].default.rpartition(":")[2])


def refuse_unknown(role, words):
    """A command line of ours: its file is named for the role, and its flags are there."""
    file, flags = words[0], words[1:]
    known = {option for parameter in real_command(role).params for option in parameter.opts}
    assert role in COMMANDS
    assert Path(file).name.startswith(role)
    assert file.endswith(".toml")
    assert set(flags) <= known


def test_there_is_a_unit_for_each_kind_of_node():
    assert [path.name for path in UNITS] == ["hpfl-cloud.service", "hpfl-edge@.service", "hpfl-ue@.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_is_there_and_not_again_what_a_start_would_not_mend(path):
    service = unit(path)["Service"]
    program, role, *words = service["ExecStart"].split()
    assert program == "/opt/hpfl/bin/hpfl"
    assert path.name.startswith(f"hpfl-{role}")
    assert ("%i" in words[0]) == ("@" in path.name)
    refuse_unknown(role, words)
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert service["SuccessExitStatus"] == "130"
    slack_s = KINDS[role].model_fields["timing"].default_factory().deadline_slack_s
    assert float(service["TimeoutStopSec"]) > slack_s
    assert "PYTHONPATH=/etc/hpfl/python" in path.read_text()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_no_fault_with_a_unit(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/hpfl/bin/hpfl", shutil.which("true")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    mine = [line for line in done.stderr.splitlines() if "hpfl" in line]
    if done.returncode and not mine:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()[-200:]}")
    assert mine == []


def test_keys_that_comments_name_are_keys_of_a_nodes_file():
    for path in [*UNITS, DEPLOY / "kubernetes.yaml"]:
        comments = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
        named = re.findall(r'([a-z_]+(?:\.[a-z_]+)?) = "', comments)
        assert named, path.name
        for key in named:
            section, _, inner = key.partition(".")
            owners = [kind for kind in KINDS.values() if section in kind.model_fields]
            assert owners, f"{path.name}: {key}"
            if inner:
                assert inner in owners[0].model_fields[section].default_factory().model_dump(), f"{path.name}: {key}"


def test_every_service_of_the_compose_file_is_a_node_with_its_own_port_and_folder():
    for name, service in SERVICES.items():
        role, *words = service["command"]
        assert name.startswith(role)
        refuse_unknown(role, words)
        ports = [] if role == "ue" else [f"{own_port(role)}:{own_port(role)}"]
        assert service.get("ports", []) == ports
        assert service["volumes"] == [f"./{name}:/etc/hpfl:ro", f"{name}:/var/lib/hpfl"]
        assert service["restart"].startswith("on-failure:")
        compile(service["healthcheck"]["test"][3], name, "exec")
        assert f":{METRICS_PORT}/healthz" in service["healthcheck"]["test"][3]
    assert {"cloud", "edge", "ue"} == {service["command"][0] for service in SERVICES.values()}
    assert set(documents((DEPLOY / "compose.yaml").read_text())[0]["volumes"]) == set(SERVICES)


def test_services_and_sets_of_the_manifest_belong_together():
    sets = {one["metadata"]["name"]: one["spec"] for one in MANIFEST if one["kind"] == "StatefulSet"}
    services = [one for one in MANIFEST if one["kind"] == "Service"]
    assert len(sets) == len(services) == 2
    for service in services:
        labels = service["spec"]["selector"]
        spec = sets[labels["app"]]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == labels
        assert spec["serviceName"] == service["metadata"]["name"]
        assert service["spec"]["publishNotReadyAddresses"], "children come through it before the node is ready"
        container = spec["template"]["spec"]["containers"][0]
        role, *words = container["args"]
        refuse_unknown(role, words)
        assert [port["containerPort"] for port in container["ports"]] == [own_port(role), METRICS_PORT]
        assert [port["targetPort"] for port in service["spec"]["ports"]] == [own_port(role)]


def test_everything_that_the_manifest_mounts_is_a_volume_and_keys_are_their_owners_alone():
    for spec in (one["spec"] for one in MANIFEST if one["kind"] == "StatefulSet"):
        pod = spec["template"]["spec"]
        there = {one["name"] for one in pod["volumes"]} | {
            one["metadata"]["name"] for one in spec["volumeClaimTemplates"]
        }
        mounted = [
            mount["name"] for part in pod["initContainers"] + pod["containers"] for mount in part["volumeMounts"]
        ]
        assert set(mounted) == there
        assert "chmod 600" in pod["initContainers"][0]["command"][2]
        assert pod["securityContext"]["runAsNonRoot"]


def test_every_path_that_is_probed_is_answered():
    text = "".join(path.read_text() for path in DEPLOY.iterdir())
    paths = set(re.findall(r"/(?:healthz|readyz|metrics)\b", text)) | set(re.findall(r"path: (/\w+)", text))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    stop = serve_status(address, prometheus_client.CollectorRegistry(), None)
    for path in paths:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            assert answer.status == 200
    stop()
    assert paths == {"/healthz", "/readyz"}


def test_the_container_installs_an_extra_that_there_is():
    text = (DEPLOY / "Containerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\.\[(\w+)\]", text)) <= set(extras)
    assert (ROOT / re.search(r"-c (\S+)", text)[1]).is_file()
    assert 'ENTRYPOINT ["hpfl"]' in text


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kubectl_reads_the_same_from_the_manifest():
    command = ["kubectl", "label", "--local", "-f", DEPLOY / "kubernetes.yaml", "a=b", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        pytest.skip(f"kubectl does not work here: {done.stderr.strip()[-200:]}")
    text, found = done.stdout.strip(), []
    while text:
        one, end = json.JSONDecoder().raw_decode(text)
        del one["metadata"]["labels"]["a"]
        found.append(one)
        text = text[end:].strip()
    for read, wanted in zip(found, MANIFEST, strict=True):
        assert read["spec"].get("selector") == wanted["spec"].get("selector")
        assert without_defaults(read, wanted) == wanted


def without_defaults(read, wanted):
    """What kubectl has read, of the keys that are written."""
    if isinstance(wanted, dict):
        return {key: without_defaults(read.get(key), value) for key, value in wanted.items()}
    if isinstance(wanted, list):
        return [without_defaults(a, b) for a, b in zip(read, wanted, strict=True)]
    return read
