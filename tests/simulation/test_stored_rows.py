"""Runs whose UEs keep more than the memory holds: rows on disk change no bit, through kill -9, Ctrl-C and resume."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hpfl
from hpfl.row_files import RowFileError
from hpfl.simulation import kept_rows
from hpfl.simulation.learners import Learners

SMALL = (
    "network.edges=3",
    "network.ues_per_edge=4",
    "data.samples_per_ue=[10.0, 20.0]",
    "planning.planner=random",
    "planning.max_edges=2",
    "evaluation.every=3",
    "evaluation.test_samples=5",
    "training.rounds=6",
    "training.checkpoint_every=2",
)
LEAVING = ("training.clock=event", "life.leave=0.2", "life.ue_failure=0.2", "life.sample_fraction=0.5")
STORED = (*LEAVING, "learning.method=ditto", "learning.memory_gb=0.03")
"""Where the data and one UE fit the memory, and a model for each UE, now and before, does not."""


def played(*overrides: str, **options: Any) -> Any:
    return hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides]), figures=False, **options)


def assert_same(one: Any, other: Any) -> None:
    assert all(torch.equal(one.model[name], other.model[name]) for name in one.model)
    for name in ("personalised_accuracy", "meta_loss"):
        np.testing.assert_array_equal(one.ues[name], other.ues[name])


@pytest.mark.parametrize("more", [(), LEAVING, ("data.held_out_ues=2",)], ids=["all", "leaving", "newcomers"])
@pytest.mark.parametrize("method", ["fedper", "apfl"])
def test_rows_on_disk_change_no_bit(
    method: str, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = [f"learning.method={method}", *more]
    in_memory = played(*overrides)
    monkeypatch.setattr(kept_rows, "SHARE", 0.0)
    assert_same(played(*overrides), in_memory)
    assert_same(played(*overrides, out=tmp_path / "run"), in_memory)
    assert (tmp_path / "run" / "checkpoints" / "method.rows").exists()


KILLED = """
import os, signal, sys
import hpfl

config = hpfl.load("quickstart-paper", overrides=sys.argv[2:])
die = lambda record: os.kill(os.getpid(), signal.SIGKILL) if record.round == 5 else None
hpfl.run(config, out=sys.argv[1], figures=False, hooks=hpfl.Hooks(on_round=die))
"""


def test_a_killed_run_goes_on_with_its_rows_on_disk(tmp_path: Path) -> None:
    overrides = [*SMALL, *STORED]
    path = str(Path(__file__).parents[2] / "src")
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), *overrides]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert (tmp_path / "run" / "checkpoints" / "method.rows").exists()
    resumed = played(*STORED, out=tmp_path / "run", resume=True)
    assert_same(resumed, played(*STORED))


def test_a_run_that_is_interrupted_goes_on_with_its_rows_on_disk(tmp_path: Path) -> None:
    interrupt = hpfl.Hooks(on_round=lambda one: os.kill(os.getpid(), signal.SIGINT) if one.round == 3 else None)
    stopped = played(*STORED, out=tmp_path / "run", hooks=interrupt)
    assert not stopped.summary["completed"]
    assert_same(played(*STORED, out=tmp_path / "run", resume=True), played(*STORED))


def test_a_run_without_room_for_its_rows_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(RowFileError, match=r"what UEs keep between rounds takes up to .* GB in .*; make room"):
        played(*STORED, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_begun_anew_by_force_leaves_no_rows_of_the_old_one(tmp_path: Path) -> None:
    wanted = played(*STORED, out=tmp_path / "run")
    size = (tmp_path / "run" / "checkpoints" / "method.rows").stat().st_size
    assert_same(played(*STORED, out=tmp_path / "run", force=True), wanted)
    assert (tmp_path / "run" / "checkpoints" / "method.rows").stat().st_size == size
    played(out=tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "checkpoints" / "method.rows").exists()


@pytest.mark.parametrize("together", [1, 5, 7, 100])
def test_edges_compute_in_stretches_that_fit_each_once(together: int) -> None:
    edge_of = np.repeat(np.arange(6), [3, 1, 0, 4, 2, 2])
    edges = np.array([True, True, False, True, False, True])
    learners = Learners(cohort=None, settings=None, streams=None, num_samples=None, together=together)  # type: ignore[arg-type]
    stretches = list(learners._stretches(edges, edge_of))
    assert np.concatenate(stretches).tolist() == [0, 1, 3, 5]
    counts = [int(np.isin(edge_of, stretch).sum()) for stretch in stretches]
    assert all(count <= together or len(stretch) == 1 for count, stretch in zip(counts, stretches, strict=True))
