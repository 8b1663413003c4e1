"""`hpfl reproduce`: the quick version of every MNIST figure, its page, and what is refused."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from hpfl import cli_reproduce
from hpfl.cli import app
from hpfl.studies import time_to_accuracy as study
from hpfl.studies.cases import QUICK
from hpfl.studies.catalogue import GROUPS, STUDIES

runner = CliRunner()


SHORT = replace(QUICK, setups={"mnist": replace(QUICK.setups["mnist"], rounds=8, every=2)})
"""The quick version with fewer rounds: the same runs, figures and tables."""


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduction")
    command = [
        "reproduce",
        "figures",
        "--quick",
        "--seeds",
        "1",
        "--device",
        "cpu",
        "--workers",
        "1",
        "--out",
        str(out),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_reproduce, "QUICK", SHORT)
        answer = runner.invoke(app, command)
        assert answer.exit_code == 0, answer.output
        yield out


QUICK_FIGURES = [name for name in GROUPS["figures"] if STUDIES[name].parts(QUICK, [0])]


def test_every_mnist_figure_has_a_quick_version():
    assert QUICK_FIGURES == ["fig3", "fig5", "fig7", "fig8", "fig9", "fig11"]


@pytest.mark.parametrize("name", QUICK_FIGURES)
def test_a_figure_leaves_pictures_and_tables(reproduced, name):
    assert (reproduced / name / f"{name}.png").stat().st_size > 10_000
    assert "<svg" in (reproduced / name / f"{name}.svg").read_text()
    tables = list((reproduced / name).glob("*.csv"))
    assert tables
    for table in tables:
        with table.open() as file:
            assert len(list(csv.DictReader(file))) >= 1, table


def test_the_page_is_whole_in_itself_and_names_every_figure(reproduced):
    text = (reproduced / "index.html").read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    assert text.count("data:image/svg+xml;base64,") == len(QUICK_FIGURES)
    assert text.index("What the paper claims") < text.index('id="fig3"')
    for name in QUICK_FIGURES:
        assert f'id="{name}"' in text
        assert f"hpfl reproduce {name}" in text


def test_every_claim_is_judged_with_its_figures(reproduced):
    claims = json.loads((reproduced / "claims.json").read_text())
    assert [claim["id"] for claim in claims] == [f"C{number}" for number in range(1, 10)]
    for claim in claims:
        assert {"id", "verdict", "estimate", "low", "high", "seeds"} <= set(claim)
        assert claim["verdict"] == "inconclusive"  # one seed decides nothing
        assert claim["seeds"] == 1


def test_claims_can_be_recomputed_from_the_csv_files(reproduced):
    with (reproduced / "fig3" / "finals.csv").open() as file:
        rows = {(row["system"], row["planner"]): float(row["personalised_accuracy"]) for row in csv.DictReader(file)}
    claims = {claim["id"]: claim for claim in json.loads((reproduced / "claims.json").read_text())}
    for part in claims["C1"]["parts"]:
        if "proposed: personalised accuracy" in part["statement"]:
            assert part["estimate"] == pytest.approx(rows["hpfl", "paper"] - rows["hfl", "paper"])
            return
    pytest.fail("no statement about the proposed planner")


def test_a_second_call_runs_nothing_again(reproduced):
    before = {path: path.stat().st_mtime_ns for path in (reproduced / "parts").rglob("*.json")}
    answer = runner.invoke(app, ["reproduce", "fig3", "--quick", "--seeds", "1", "--out", str(reproduced), "--no-run"])
    assert answer.exit_code == 0, answer.output
    assert before == {path: path.stat().st_mtime_ns for path in (reproduced / "parts").rglob("*.json")}


def test_a_quick_study_of_times_leaves_its_tables(tmp_path, monkeypatch):
    small = replace(study.QUICK["mnist-mini"], rounds=4, planners=("fastest", "random-1"))
    monkeypatch.setattr(study, "QUICK", {"mnist-mini": small})
    command = ["reproduce", "time-to-accuracy", "--quick", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path)]
    answer = runner.invoke(app, [*command, "--workers", "1", "--only", "auto", "--only", "fastest/"])
    assert answer.exit_code == 0, answer.output
    for name in ("runs", "cells", "speedups"):
        assert (tmp_path / "time-to-accuracy" / f"{name}.csv").exists()
        assert (tmp_path / "time-to-accuracy" / f"{name}.json").exists()


def test_ctrl_c_at_any_moment_ends_many_workers_at_once(tmp_path):
    options = ["--quick", "--seeds", "1", "--workers", "6", "--device", "cpu", "--out", str(tmp_path)]
    command = [sys.executable, "-c", "from hpfl.cli import main; main()", "reproduce", "methods", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        assert "at work" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        said, heard = process.communicate(timeout=60)
    assert process.returncode == 130, heard
    assert "stopping after this round" in heard
    assert "runs are done. The same command goes on" in said
    assert "takes it up" not in heard


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["fig99"], "no study is called 'fig99'"),
        (["fig4", "--quick"], "needs CIFAR-10"),
        (["fig3", "--quick", "--only", "nothing"], "no part's name contains nothing"),
        (["fig5", "--quick", "--set", "planning.rho=0.2"], "leaves runs of fig5 alike"),
        (["fig3", "--quick", "--set", "planning.rhow=0.2"], "planning.rhow is not a key"),
        (["fig3", "--quick", "--out", __file__], "is a file; wanted a folder"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(tmp_path, words, reason):
    out = [] if "--out" in words else ["--out", str(tmp_path)]
    answer = runner.invoke(app, ["reproduce", *words, *out])
    assert answer.exit_code == 2
    assert reason in " ".join(answer.output.split())
