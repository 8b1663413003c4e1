import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from hpfl import cli_plan
from hpfl.cli_plan import plan_command
from hpfl.planning.planners import PLANNERS

app = typer.Typer(pretty_exceptions_enable=False)
app.command("plan")(plan_command)

PROBLEM = {
    "bandwidth_hz": 5e6,
    "noise_w_per_hz": 3.98e-21,
    "model_bits": 2544320,
    "rho": 0.8,
    "phi": 9.33,
    "max_edges": 2,
    "staleness_bound": 20,
    "edges": [
        {
            "id": f"es-{k}",
            "gain": 1e-9 / (k + 1),
            "power_w": 0.01,
            "importance": 1.0 + k,
            "staleness": 20 if k == 0 else 3,
            "ues": [
                {"gain": 1e-7, "power_w": 0.01, "compute_s": 0.02},
                {"gain": 2e-7, "power_w": 0.01, "compute_s": 0},
            ],
        }
        for k in range(3)
    ],
}


def run(*arguments, text=None):
    return CliRunner().invoke(app, [*map(str, arguments)], input=text)


@pytest.fixture
def problem_file(tmp_path):
    path = tmp_path / "round.json"
    path.write_text(json.dumps(PROBLEM))
    return path


def refused(result):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def test_the_json_answer_names_the_scheduled_edges(problem_file):
    result = run(problem_file, "--planner", "random", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["planner"] == "random"
    assert "es-0" in answer["scheduled"]
    assert len(answer["scheduled"]) == 2
    assert answer["planning_s"] > 0
    assert [edge["id"] for edge in answer["edges"]] == ["es-0", "es-1", "es-2"]


def test_standard_input_gives_the_same_plan_as_the_file(problem_file):
    answers = [
        json.loads(run(problem_file, "--planner", "paper", "--json").stdout),
        json.loads(run("-", "--planner", "paper", "--json", text=json.dumps(PROBLEM)).stdout),
    ]
    for answer in answers:
        del answer["planning_s"]
    assert answers[0] == answers[1]


def test_the_table_and_the_spectrum_fit_eighty_columns(problem_file):
    result = run(problem_file, "--planner", "full")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for word in ("full: 3 of 3 edges upload", "es-2", "MHz", "backhaul"):
        assert word in result.stdout


def test_the_seed_decides_what_random_draws(problem_file):
    sets = {
        tuple(json.loads(run(problem_file, "--planner", "random", "--json", "--seed", s).stdout)["scheduled"])
        for s in range(8)
    }
    assert sets == {("es-0", "es-1"), ("es-0", "es-2")}


def test_a_fault_in_the_file_is_one_line_that_names_file_and_place(problem_file):
    text = problem_file.read_text().replace('"gain": 2e-07', '"gain": -0.2', 1)
    problem_file.write_text(text)
    assert refused(run(problem_file, "--json")) == (
        f"hpfl plan: {problem_file}: edges[0].ues[1].gain is -0.2; a power gain must be positive"
    )


def test_standard_input_is_named_when_it_is_at_fault():
    assert refused(run("-", text="{")).startswith("hpfl plan: standard input: line 1, column 2 is not JSON")


def test_an_unknown_planner_is_refused_with_the_known_ones(problem_file):
    assert "no planner is called 'jiont'; there are " in refused(run(problem_file, "--planner", "jiont"))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert refused(run(tmp_path / "nowhere.json")).endswith("nowhere.json: No such file or directory")
    assert refused(run(tmp_path)).endswith("Is a directory")


def test_a_file_of_two_gigabytes_is_refused_without_being_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2 * 2**30)
    assert refused(run(path)).endswith("more than 512 MiB; a planning problem may not be larger")


def test_an_endless_standard_input_is_read_no_further_than_the_limit(monkeypatch):
    class Endless(io.RawIOBase):
        asked = 0

        def read(self, size=-1):
            self.asked += size
            return b" " * size

    endless = Endless()
    monkeypatch.setattr(cli_plan, "MOST_BYTES", 1000)
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": endless}))
    with pytest.raises(ValueError, match="may not be larger"):
        cli_plan.read_source("-")
    assert endless.asked == 1001


def test_an_energy_budget_that_can_never_suffice_is_refused(problem_file):
    problem_file.write_text(
        problem_file.read_text().replace('"compute_s": 0.02', '"compute_s": 0.02, "energy_j": 1e-30')
    )
    assert "edges[0].ues[0].energy_j is 1e-30; at any bandwidth" in refused(run(problem_file, "--planner", "shpfl"))


def test_settings_that_work_against_each_other_are_pointed_out_on_standard_error(tmp_path):
    path = tmp_path / "crowded.json"
    path.write_text(json.dumps(PROBLEM | {"max_edges": 1, "staleness_bound": 1}))
    result = run(path, "--planner", "full", "--json")
    assert result.exit_code == 0
    assert "serves 2 of 3 edges in time" in result.stderr
    json.loads(result.stdout)


def test_the_help_shows_the_file_format():
    text = run("--help").stdout
    assert '"bandwidth_hz": 5e6' in text
    assert "staleness_bound" in text


def test_ids_that_a_terminal_would_act_on_are_printed_harmlessly(tmp_path):
    path = tmp_path / "ids.json"
    edges = [dict(PROBLEM["edges"][0], id="a\x1b[2Jb[bold]c\ud800")]
    path.write_text(json.dumps(PROBLEM | {"edges": edges}))
    result = run(path, "--planner", "full")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "a?[2Jb[bold]c" in result.stdout


def test_a_terminal_without_unicode_gets_plain_letters(problem_file):
    code = "import typer; from hpfl.cli_plan import plan_command; typer.run(plan_command)"
    command = [sys.executable, "-c", code, str(problem_file), "--planner", "full"]
    result = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii"})
    assert b"####" in result.stdout
    assert result.stdout.isascii()


def test_a_plan_beyond_the_cap_is_said_in_every_form(problem_file):
    shown, written = run(problem_file, "--planner", "full"), run(problem_file, "--planner", "full", "--json")
    assert "full: 3 of 3 edges upload (more than the 2 wanted)" in shown.stdout
    assert json.loads(written.stdout)["exceeds_cap"] is True
    for result in (shown, written):
        assert result.stderr == "hpfl plan: planner full schedules 3 edges, beyond max_edges = 2\n"
    within = run(problem_file, "--planner", "random", "--json")
    assert (json.loads(within.stdout)["exceeds_cap"], within.stderr) == (False, "")


def test_a_planner_that_breaks_the_cap_or_the_budget_is_refused_with_the_figures(problem_file, monkeypatch):
    def crowded(problem, memory, stream):
        plan, memory = PLANNERS.get("full")(problem, memory, stream)
        return replace(plan, exceeds_cap=False), memory

    monkeypatch.setitem(PLANNERS._parts, "crowded", PLANNERS._made("crowded", crowded, "elsewhere", None, {}))
    said = refused(run(problem_file, "--planner", "crowded"))
    assert said.endswith("planner crowded schedules 3 edges of at most 2, and does not say so (exceeds_cap)")
