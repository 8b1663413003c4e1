"""`hpfl.run` as scripts call it: results to look at, progress, interrupts."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import hpfl
from hpfl.planning import plan_for_set
from hpfl.reporting.store import OutputError

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=5",
    "evaluation.every=2",
    "planning.max_edges=2",
    "training.rounds=5",
    "training.checkpoint_every=1",
]


def small(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run in a folder, and what `hpfl.run` returned of it."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    return out, hpfl.run(small(), out=out)


# results


def test_a_result_is_told_in_one_line(written):
    _, result = written
    assert re.fullmatch(
        r"<mine: 5 rounds, [\d.]+ s simulated, personalised accuracy [\d.]+, global [\d.]+; completed>", repr(result)
    )


def test_rounds_and_ues_are_tables_and_still_the_list_and_columns_they_were(written):
    _, result = written
    rounds, ues = result.rounds.to_frame(), result.ues.to_frame()
    assert rounds["round"].tolist() == [1, 2, 3, 4, 5]
    assert rounds["personalised_accuracy"].isna().tolist() == [True, False, True, False, False]
    assert isinstance(result.rounds, list)
    assert result.rounds[-1]["round"] == 5
    assert ues.shape[0] == 6
    assert ues["energy_j"].tolist() == result.ues["energy_j"].tolist()
    assert "<table" in result.rounds._repr_html_()
    assert "energy_j" in result.ues._repr_html_()


def test_without_pandas_a_table_says_what_is_missing(written, monkeypatch):
    _, result = written
    monkeypatch.setitem(sys.modules, "pandas", None)
    for table in (result.rounds, result.ues):
        with pytest.raises(ImportError, match=r"tables need pandas: pip install 'hpfl\[notebook\]'"):
            table.to_frame()
        assert table._repr_html_() is None


def test_a_result_in_a_notebook_is_a_table_with_a_curve(written):
    page = written[1]._repr_html_()
    assert page.count("<polyline") == 2
    assert "accuracy, personalised" in page
    assert "5, completed" in page
    assert len(page) < 5000


def test_names_in_the_page_of_a_result_are_text(tmp_path):
    def planner(problem, memory, stream):
        return plan_for_set(problem, np.arange(problem.num_edges) == 0, "x"), memory

    planner.__name__ = "<script>alert(1)</script>"
    result = hpfl.run(small("training.rounds=1"), out=tmp_path / "<img src=x>", planner=planner, figures=False)
    page = result._repr_html_()
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;img src=x&gt;" in page


def test_plot_gives_the_figures_of_the_folder(written):
    _, result = written
    figure = result.plot()
    assert figure.axes[0].get_ylabel() == "accuracy, mean over UEs"
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(result.plot("ues").axes) == 2
    with pytest.raises(ValueError, match="no picture of a run is called 'loss'; there are progress, schedule"):
        result.plot("loss")


def test_a_run_without_a_folder_can_be_drawn_too():
    assert hpfl.run(small("training.rounds=2")).plot("schedule").axes


def test_a_run_is_opened_again_as_it_was(written):
    out, result = written
    again = hpfl.open_run(out)
    assert again.rounds == result.rounds
    assert again.summary == json.loads((out / "summary.json").read_text())
    assert repr(again) == repr(result)
    assert all(torch.equal(again.model[name], result.model[name]) for name in result.model)
    assert again._repr_html_() == result._repr_html_()
    for name, column in result.ues.items():
        assert [list(x) if name == "labels" else x for x in again.ues[name]] == list(column)


def test_a_run_that_is_not_finished_can_be_opened(tmp_path):
    out = tmp_path / "run"
    result = hpfl.run(small(), out=out, hooks=hpfl.Hooks(should_stop=lambda: True), figures=False)
    assert not result.completed
    for name in ("summary.json", "ues.csv", "model.safetensors"):
        (out / name).unlink()
    opened = hpfl.open_run(out)
    assert (opened.how, len(opened.rounds), opened.model) == ("stopped", 1, {})
    assert repr(opened).startswith("<run: 1 round, ")
    assert "1, stopped" in opened._repr_html_()


def test_what_is_no_run_is_not_opened(tmp_path):
    with pytest.raises(OutputError, match="is not a folder of results"):
        hpfl.open_run(tmp_path / "nothing")


# progress


def test_without_a_terminal_nothing_is_shown_unless_asked_for(capsys):
    hpfl.run(small("training.rounds=2"))
    assert capsys.readouterr() == ("", "")
    hpfl.run(small("training.rounds=2"), progress=True)
    assert re.search(r"round 2/2 .* simulated", capsys.readouterr().out)


PARTS = """
import sys, torch, numpy as np, hpfl
from hpfl.planning import plan_for_set

def mine(problem, memory, stream):
    if "d" in {"a", "b", "c"}:  # which is in another order in every process
        raise ValueError
    return plan_for_set(problem, np.array([k == 0 for k in range(problem.num_edges)]) | problem.must, "m"), memory

class Net(torch.nn.Module):
    def __init__(self, input_shape, num_outputs):
        super().__init__()
        self.last = torch.nn.Linear(784, num_outputs)

    def forward(self, inputs):
        return (lambda flat: self.last(flat))(inputs.flatten(1))
"""
SCRIPT = """
config = hpfl.load("quickstart-paper", overrides=sys.argv[2:])
result = hpfl.run(config, out=sys.argv[1], planner=mine, model=Net)
print(len(result.rounds), "rounds", result.how)
"""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A script that was interrupted at a terminal: what it said, and the folder of its run."""
    out = tmp_path_factory.mktemp("interrupted") / "run"
    command = [sys.executable, "-c", PARTS + SCRIPT, str(out), *SMALL, "planning.max_edges=3", "training.rounds=100000"]
    return at_a_terminal(command, interrupt_at=r"round [1-9]\d*/"), out


def test_at_a_terminal_progress_is_shown_and_an_interrupt_returns_what_there_is(interrupted):
    told, out = interrupted
    assert re.search(r"round \d+/100000", told)
    assert "stopping after this round (Ctrl-C again to stop at once)" in told
    stopped = re.search(r"stopped after round (\d+) of 100000: the result has what there is; go on with resume", told)
    assert f"{stopped[1]} rounds stopped" in told
    assert "Traceback" not in told
    assert (out / "figures" / "progress.png").is_file()


def test_another_process_goes_on_with_the_same_parts_and_is_told_when_they_are_missing(interrupted):
    out = interrupted[1]
    with pytest.raises(hpfl.ConfigError) as refused:
        hpfl.load(out / "config.toml")
    assert re.fullmatch(
        r"planning.planner is 'given:mine-.{8}'; that planner was handed over in Python; hand over the same again with "
        r"hpfl.run or hpfl.load, or name module:callable",
        str(refused.value),
    )
    exec(PARTS, ours := {"__name__": "__main__"})
    played = len(hpfl.open_run(out).rounds)
    config = hpfl.load(out / "config.toml", planner=ours["mine"], model=ours["Net"])
    config.training.rounds = played + 1
    assert hpfl.run(config, out=out, resume=True, figures=False).completed


def at_a_terminal(command, interrupt_at=""):
    """What a command prints at a terminal, which interrupts it once it has said what matches a pattern."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    told = b""
    try:
        while piece := read(ours):
            told += piece
            if interrupt_at and re.search(interrupt_at.encode(), told):
                process.send_signal(signal.SIGINT)
                interrupt_at = ""
        process.wait(timeout=120)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", told.decode()).replace("\r\n", "\n")


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody is at its other end
        return b""


# interrupts


def interrupting(times):
    """Hooks that interrupt this process in its third round."""

    def heard(record):
        for _ in range(times if record.round == 3 else 0):
            signal.raise_signal(signal.SIGINT)

    return hpfl.Hooks(on_round=heard)


def test_an_interrupt_ends_the_run_after_its_round_and_it_can_go_on(tmp_path, capsys):
    result = hpfl.run(small(), out=tmp_path, hooks=interrupting(1), figures=False)
    assert (len(result.rounds), result.completed, result.how) == (3, False, "stopped")
    assert "stopped after round 3 of 5: the result has what there is; go on with resume=True" in capsys.readouterr().err
    assert hpfl.run(small(), out=tmp_path, resume=True, figures=False).completed


def test_a_second_interrupt_stops_at_once_and_interrupts_mean_afterwards_what_they_meant(capsys):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        hpfl.run(small(), hooks=interrupting(2))
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after this round" in capsys.readouterr().err


def test_who_has_taken_interrupts_in_hand_keeps_them():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        assert hpfl.run(small(), hooks=interrupting(1)).completed
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_run_in_a_thread_leaves_interrupts_alone():
    results = []
    thread = threading.Thread(target=lambda: results.append(hpfl.run(small("training.rounds=1"))))
    thread.start()
    thread.join()
    assert results[0].completed
