"""Watchers of simulated runs, and what a run does when they fail or when it ends early."""

import os
import signal
import threading

import numpy as np
import pytest
import torch

import hpfl
from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.stopping import stopping_after_round
from hpfl.training import WATCHERS, Watcher
from hpfl.training.cloud_step import DivergedError
from watching import Clumsy, Diary

SMALL = [
    "network.edges=2",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=6",
    "evaluation.every=2",
    "planning.planner=full",
    "training.rounds=5",
    "training.checkpoint_every=2",
]
SILENT = hpfl.Hooks()


def run(*overrides, hooks=SILENT, **how):
    return hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides]), figures=False, hooks=hooks, **how)


@pytest.fixture(scope="module")
def unwatched():
    return run()


def same_model(one, other):
    return all(torch.equal(one.model[name], other.model[name]) for name in one.model)


def test_a_watcher_is_told_of_start_rounds_evaluations_checkpoints_and_end_in_that_order(tmp_path, unwatched):
    diary = Diary()
    result = run(out=tmp_path, watchers=[diary])
    assert diary.lines == [
        "started after 0 of 5",
        *("round 1", "round 2", "evaluated 2", "saved 2", "round 3", "round 4", "evaluated 4", "saved 4"),
        *("round 5", "evaluated 5", "saved 5", "ended completed"),
    ]
    assert diary.result is result
    assert diary.records == result.rounds
    seen = diary.run
    assert (seen.folder, seen.deployed, seen.num_edges, seen.num_ues) == (tmp_path, False, 2, 6)
    assert seen.num_parameters == sum(part.numel() for part in result.model.values())
    assert same_model(result, unwatched)


def test_without_a_folder_nothing_is_saved_and_the_rest_is_told():
    diary = Diary()
    run("training.rounds=2", watchers=[diary])
    assert diary.lines == ["started after 0 of 2", "round 1", "round 2", "evaluated 2", "ended completed"]
    assert diary.run.folder is None


@pytest.mark.parametrize("count", [0, 4])
def test_figures_are_those_of_the_evaluated_ues_by_column_and_number(count):
    diary = Diary()
    result = run(f"evaluation.ues={count}", watchers=[diary])
    (_, first, _), *_, (last_round, columns, ues) = diary.figures
    assert last_round == 5
    assert sorted(ues) == sorted(result.ues["ue"][~np.isnan(result.ues["loss"])])
    assert len(ues) == (count or 6)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, result.ues[name][ues])
        assert np.mean(values) == pytest.approx(result.rounds[-1][name])
    assert not np.array_equal(first["loss"], columns["loss"])


@pytest.mark.parametrize("method", ["started", "round", "evaluated", "saved", "ended"])
def test_a_watcher_that_raises_is_named_once_told_nothing_more_and_changes_nothing(tmp_path, unwatched, method):
    clumsy, diary, notes = Clumsy(method), Diary(), []
    result = run(out=tmp_path, watchers=[clumsy, diary], hooks=hpfl.Hooks(note=notes.append))
    assert notes == [
        f"watcher Clumsy failed in `{method}` (ZeroDivisionError: by nothing) and is told nothing more; the run goes on"
    ]
    assert clumsy.told.count(method) == 1
    assert clumsy.told[-1] == method
    assert diary.lines[-1] == "ended completed"
    assert same_model(result, unwatched)


def test_where_nobody_takes_notes_a_failing_watcher_is_a_warning():
    with pytest.warns(UserWarning, match="watcher Clumsy failed in `started`"):
        run("training.rounds=1", hooks=None, watchers=[Clumsy("started")])


def test_a_stopped_run_says_so_and_goes_on_with_the_same_bits(tmp_path, unwatched):
    diary = Diary()
    stopped = run(out=tmp_path, watchers=[diary], hooks=hpfl.Hooks(should_stop=lambda: len(diary.records) == 3))
    assert diary.lines[-3:] == ["round 3", "saved 3", "ended stopped"]
    assert not stopped.completed
    resumed = Diary()
    result = run(out=tmp_path, resume=True, watchers=[resumed])
    assert resumed.lines[:2] == ["started after 3 of 5", "round 4"]
    assert resumed.lines[-1] == "ended completed"
    assert resumed.result.rounds[:3] == stopped.rounds
    assert same_model(result, unwatched)


def test_a_run_that_diverges_ends_with_what_it_had(tmp_path):
    diary = Diary()
    with pytest.raises(DivergedError, match="round 2: "):
        run("learning.outer_lr=1e30", out=tmp_path, watchers=[diary])
    assert diary.lines == ["started after 0 of 5", "round 1", "ended diverged"]
    assert diary.result.summary["diverged"]
    assert diary.result.error.startswith("the update of")
    assert not diary.result.model


class Obstacle(Watcher):
    """Stands where the timeline is to be written."""

    def started(self, run):
        (run.folder / "timeline.jsonl").mkdir()


def test_what_the_journal_cannot_write_stops_the_run(tmp_path):
    diary = Diary()
    with pytest.raises(IsADirectoryError):
        run(out=tmp_path, watchers=[Obstacle(), diary])
    assert diary.lines == ["started after 0 of 5", "ended failed"]
    assert "directory" in diary.result.error


def test_an_interrupt_passes_through_and_watchers_hear_of_the_end(tmp_path):
    def interrupt(record):
        raise KeyboardInterrupt

    diary = Diary()
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path, watchers=[diary], hooks=hpfl.Hooks(on_round=interrupt))
    assert diary.lines == ["started after 0 of 5", "ended failed"]
    assert diary.result.error == "KeyboardInterrupt"


class Loudness(Options):
    every: int = option(1, "rounds between words", ge=1)


@part(options=Loudness)
def loud(folder, *, options):
    """Speaks of some rounds."""
    diary = Diary()
    diary.place, diary.every = folder, options.every
    return diary


def test_watchers_are_parts_with_options_of_their_own(tmp_path):
    found = WATCHERS.part("test_watchers:loud")
    made = found.bound(found.read({"every": 3}))(tmp_path)
    assert isinstance(made, Watcher)
    assert (made.place, made.every) == (tmp_path, 3)


def test_a_first_ctrl_c_asks_to_stop_and_a_second_one_interrupts():
    said, before = [], signal.getsignal(signal.SIGINT)
    with stopping_after_round(said.append) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert said == ["stopping after this round (Ctrl-C again to stop at once)"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_waits_for_no_lock_of_the_thread_it_interrupts():
    said, display = [], threading.Lock()

    def say(text):
        with display:
            said.append(text)

    with stopping_after_round(say) as stop:
        with display:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_asked
    assert len(said) == 1
