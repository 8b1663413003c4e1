"""Who may ask the page's server, and what is refused: methods, hosts, tokens, paths, damage, hostile names."""

import json
import ssl
import urllib.request

import pytest
from typer.testing import CliRunner
from watch_server import lengthened, serving

from hpfl.cli import app
from hpfl.watch.serving import PageAddress
from hpfl.watch.shown import WatchError

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e" + "x" * 5000


def test_every_answer_carries_a_strict_policy(server):
    for path in ("/", "/api/runs", "/nowhere", "/api/runs/r9/columns"):
        headers = server.answer(path)[1]
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_a_name_that_somebody_pointed_here_is_refused(server):
    status, _, content = server.answer("/api/runs", Host=f"evil.example:{server.port}")
    assert status == 421
    assert "address" in json.loads(content)["error"]
    assert server.answer("/api/runs", Host=f"localhost:{server.port}")[0] == 200
    assert server.answer("/api/runs", Host="localhost")[0] == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_is_answered(server, method):
    assert server.answer("/api/runs", method=method)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/%2e%2e/app.py",
        "/..%2fapp.py",
        "//etc/passwd",
        "/static/../app.py",
        "/api/runs/r0/files/..%2f..%2frounds.jsonl",
        "/api/runs/..%2f..%2fetc/columns",
        "/api/runs/r0/files/config.toml",
    ],
)
def test_no_path_leads_out_of_the_page(server, path):
    status, _, content = server.answer(path)
    assert status == 404
    assert set(json.loads(content)) == {"error"}


@pytest.mark.parametrize(
    "path", ["rounds/-1", "rounds/1e9", "rounds/99999999999999", "columns?from=x", "ues?ue=%00", "gantt?to=-3"]
)
def test_what_is_no_number_is_refused_in_a_sentence(server, path):
    status, _, content = server.answer(f"/api/runs/r0/{path}")
    assert status == 400
    assert "number" in json.loads(content)["error"]


@pytest.mark.parametrize("path", ["rounds/0", "rounds/7", "nodes", "ues?ue=99"])
def test_what_is_not_there_is_said_in_a_sentence(server, path):
    status, _, content = server.answer(f"/api/runs/r0/{path}")
    assert status == 404
    assert json.loads(content)["error"]


def test_hostile_names_come_out_as_short_plain_text(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "<img src=x onerror=alert(1)>", 3)
    config = (folder / "config.toml").read_text()
    planner = json.dumps(HOSTILE)
    (folder / "config.toml").write_text(config.replace('planner = "fastest"', f"planner = {planner}"))
    nodes = [{"node": HOSTILE, "state": "\x00", "planned_s": "1", "refused": 1e999, "misses": 10**400}, {}]
    (folder / "status.json").write_text(json.dumps({"round": 1, "rounds": 2, "nodes": nodes}))
    with serving(folder) as asked:
        (run,) = asked.told("/api/runs")["runs"]
        told = asked.told("/api/runs/r0/nodes")
    for said in (run["planner"], told["node"][0]):
        assert said.startswith("<script>alert(1)</script>?[2J?")
        assert said.isprintable()
        assert len(said) <= 200
    assert told["state"][0] == "?"
    assert told["planned_s"] == told["refused"] == told["misses"] == [None, None]


def test_damaged_lines_are_passed_over_and_numbers_that_json_cannot_hold_are_null(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "damaged", 6)
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = b"\xff\xfe{{{\n"
    lines[2] = b'{"round": 3, "energy_j": NaN, "latency_s": 1e999, "loss": ' + b"9" * 5000 + b"}\n"
    lines[3] = b"[" * 100_000 + b"\n"
    (folder / "rounds.jsonl").write_bytes(b"".join(lines))
    (folder / "scenes.jsonl").write_bytes(b"nonsense\n" * 3)
    (folder / "timeline.jsonl").write_bytes(b'{"round": 5}\n\xff\n')
    (folder / "summary.json").write_text("[1")
    with serving(folder) as asked:
        columns = asked.told("/api/runs/r0/columns")["columns"]
        assert columns["round"] == [1, 2, 3, 4, 5, 6]
        assert columns["latency_s"][1:4] == [None, None, None]
        assert columns["cumulative_energy_j"][3] == columns["cumulative_energy_j"][0]
        assert asked.answer("/api/runs/r0/rounds/2")[0] == 404
        assert asked.told("/api/runs/r0/rounds/5")["spectrum"] is None
        assert asked.told("/api/runs/r0/edges")["staleness"] is None


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "example.org", "::"])
def test_another_address_than_loopback_needs_tls(host):
    with pytest.raises(WatchError, match="--tls-cert and --tls-key"):
        PageAddress(host=host).checked()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_needs_neither_certificate_nor_token(host):
    assert PageAddress(host=host).checked().token == ""


def test_the_command_refuses_in_one_sentence(run_folder, tmp_path):
    for arguments in (
        [str(run_folder), "--host", "0.0.0.0"],
        [str(tmp_path)],
        [str(tmp_path / "nowhere")],
        [str(run_folder), "--tls-cert", "x.pem"],
        [str(run_folder), "--token", "short"],
    ):
        done = CliRunner().invoke(app, ["watch", "--no-open", *arguments])
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("hpfl: ")
        assert done.stderr.count("\n") == 1


def test_a_token_is_wanted_in_the_address_once_and_then_as_a_cookie(run_folder):
    with serving(run_folder, token="t" * 32) as asked:
        for headers in ({}, {"Authorization": "Bearer " + "u" * 32}, {"Cookie": "hpfl-watch=no"}):
            status, _, content = asked.answer("/api/runs", **headers)
            assert status == 401
            assert "token" in json.loads(content)["error"]
        assert asked.answer("/api/runs?token=" + "u" * 32)[0] == 401
        status, headers, _ = asked.answer("/?token=" + "t" * 32)
        assert status == 200
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert asked.answer("/api/runs", Cookie=cookie.split(";")[0])[0] == 200
        assert asked.answer("/api/runs", Authorization="Bearer " + "t" * 32)[0] == 200


def test_over_tls_a_token_is_drawn_and_the_cookie_is_secure(run_folder, tmp_path):
    from hpfl.deployment.certificates import init_authority, issue

    cert = issue(init_authority(tmp_path), tmp_path, "cloud")
    key = cert.with_suffix(".key")
    place = PageAddress(host="0.0.0.0", tls_cert=cert, tls_key=key).checked()
    assert len(place.token) >= 32
    with serving(run_folder, tls_cert=cert, tls_key=key, token=place.token) as asked:
        trust = ssl._create_unverified_context()
        address = f"https://127.0.0.1:{asked.port}/?token={place.token}"
        with urllib.request.urlopen(address, context=trust, timeout=60) as answer:
            assert "; Secure" in answer.headers["set-cookie"]
