"""`hpfl.run` as scripts and notebooks call it: progress, interrupts, results to look at, parts as objects."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import hpfl
from hpfl.data import Dataset
from hpfl.learning import BaseMethod
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


def small(*overrides, **parts):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides], **parts)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run in a folder, and what `hpfl.run` returned of it."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    return out, hpfl.run(small(), out=out)


def first_edge(name):
    """A planner made in a function, so that no name leads to it."""

    def planner(problem, memory, stream):
        chosen = np.arange(problem.num_edges) == 0
        return plan_for_set(problem, chosen | (problem.staleness >= problem.staleness_bound), name), memory

    return planner


class Shown(Dataset):
    pass


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
        return plan_for_set(problem, np.full(problem.num_edges, True), "x"), memory

    planner.__name__ = "<script>alert(1)</script>"
    result = hpfl.run(small("training.rounds=1"), out=tmp_path / "<img src=x>", planner=planner, figures=False)
    page = result._repr_html_()
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;img src=x&gt;" in page


def test_plot_gives_the_figures_of_the_folder(written):
    _, result = written
    figures = {name: result.plot(name) for name in ("progress", "schedule", "latency", "ues")}
    assert len(figures["progress"].axes) == 3
    assert figures["progress"]._repr_png_().startswith(b"\x89PNG")
    assert result.plot().axes[0].get_ylabel() == figures["progress"].axes[0].get_ylabel()
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
    assert again.plot("ues").axes


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


SCRIPT = """
import hpfl
config = hpfl.load("quickstart-paper", overrides=OVERRIDES)
result = hpfl.run(config)
print(len(result.rounds), "rounds", result.how)
"""


def script(*overrides):
    return [sys.executable, "-c", SCRIPT.replace("OVERRIDES", repr([*SMALL, *overrides]))]


def test_at_a_terminal_progress_is_shown():
    told = at_a_terminal(script())
    assert "round 5/5" in told
    assert "simulated clock" in told
    assert told.rstrip().endswith("5 rounds completed")


def test_an_interrupt_at_a_terminal_returns_what_there_is():
    told = at_a_terminal(script("training.rounds=100000"), interrupt_at="round ")
    assert "stopping after this round (Ctrl-C again to stop at once)" in told
    stopped = re.search(r"stopped after round (\d+) of 100000: the result has what there is", told)
    assert f"{stopped[1]} rounds stopped" in told
    assert "Traceback" not in told


def at_a_terminal(command, interrupt_at=""):
    """What a command prints at a terminal, which interrupts it once it has said something."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    told = b""
    try:
        while piece := read(ours):
            told += piece
            if interrupt_at and interrupt_at.encode() in told:
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


# parts as objects


def test_a_planner_can_be_a_function_and_the_file_says_so(tmp_path):
    result = hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), figures=False)
    assert result.rounds[0]["scheduled"] == [0]
    (line,) = [line for line in (tmp_path / "config.toml").read_text().splitlines() if line.startswith("planner = ")]
    assert re.match(r'planner = "given:planner-[0-9a-f]{8}" # .*this one was handed over in Python', line)


def test_a_run_with_a_part_of_ones_own_goes_on_with_the_same_and_with_no_other(tmp_path):
    stopped = hpfl.Hooks(should_stop=lambda: True)
    hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), hooks=stopped, figures=False)
    with pytest.raises(Exception, match=r"planning.planner is 'given:planner-.*' here, 'given:planner-.*' in the run"):
        hpfl.run(small(), out=tmp_path, planner=first_edge("another"), resume=True, figures=False)
    assert hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), resume=True, figures=False).completed


RESUMING = """
import numpy as np, hpfl
from hpfl.planning import plan_for_set
def mine(problem, memory, stream):
    names = {"a", "b", "c"}  # a set whose order is another in every process
    return plan_for_set(problem, np.array([name in names or k == 0 for k, name in enumerate(problem.names)]), "m"), memory
class Net(hpfl.torch_nn.Module if hasattr(hpfl, "torch_nn") else __import__("torch").nn.Module):
    def __init__(self, input_shape, num_outputs):
        super().__init__()
        self.last = __import__("torch").nn.Linear(784, num_outputs)
    def forward(self, inputs):
        return self.last(inputs.flatten(1))
import sys
MORE
"""


def test_another_process_goes_on_with_the_same_part_and_is_told_when_it_is_missing(tmp_path):
    out = tmp_path / "run"
    config = f"hpfl.load('quickstart-paper', overrides={SMALL!r})"
    begin = f"hpfl.run({config}, out={str(out)!r}, planner=mine, model=Net, figures=False, hooks=hpfl.Hooks(should_stop=lambda: True))"
    go_on = (
        f"try:\n    hpfl.load({str(out / 'config.toml')!r})\nexcept hpfl.ConfigError as error:\n    print(error)\n"
        f"config = hpfl.load({str(out / 'config.toml')!r}, planner=mine, model=Net)\n"
        f"print(hpfl.run(config, out={str(out)!r}, resume=True, figures=False).how)"
    )
    for text in (begin, go_on):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", RESUMING.replace("MORE", text)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    refused, how = done.stdout.splitlines()
    assert re.fullmatch(
        r"planning.planner is 'given:mine-.{8}'; that planner was handed over in Python; hand over the same again with "
        r"hpfl.run or hpfl.load, or name module:callable",
        refused,
    )
    assert how == "completed"


class Halves(BaseMethod):
    """A method of one's own: the half of a plain gradient step."""

    def local(self, *given):
        raise NotImplementedError


class Echo:
    """A channel whose links are all alike; it is handed over as it is."""

    def gains(self, block, places, streams):
        from hpfl.network import Gains

        return Gains(ue=np.full(places.ue_distance_m.size, 1e-8), edge=np.full(places.edge_distance_m.size, 1e-8))


def mean_by_hand(contributions, state):
    from hpfl.training import Combined

    values = torch.stack([one.update for one in contributions])
    shares = np.full(len(values), 1 / len(values))
    return Combined(values.mean(dim=0), shares, state)


def samples():
    inputs = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    labels = (inputs.sum(1) > 0).astype(np.int64)
    return Dataset("ours", inputs, labels, 2, inputs[:40], labels[:40], sample_bits=128)
