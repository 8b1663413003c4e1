"""Engines: jobs are plain data, a killed worker costs its job a new start, a stop waits for the round."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from sweep_players import Heard, job

from hpfl.config import ConfigError
from hpfl.sweeps.engines import make_engine
from hpfl.sweeps.in_process import InProcess
from hpfl.sweeps.local_engine import MOST_TRIES, LocalEngine
from hpfl.sweeps.nursery import Nursery
from hpfl.sweeps.playing import job_from_plain


@pytest.fixture(scope="module")
def engine():
    """One worker for all tests here, replaced when it is killed: starting one takes seconds."""
    with LocalEngine(1) as made:
        yield made


def test_a_job_survives_json():
    one = job("one", folder="somewhere", more=[1, {"a": None}])
    assert job_from_plain(json.loads(json.dumps(one.to_plain()))) == one


def test_all_jobs_end_in_one_process_with_one_thread_whatever_becomes_of_them(engine, tmp_path):
    kinds = ("nothing", "refused", "raises", "nothing")
    jobs = [job(f"job-{index}", kind, folder=tmp_path) for index, kind in enumerate(kinds)]
    heard = Heard()
    engine.run(jobs, heard)
    assert heard.begins == [each.name for each in jobs]
    assert [heard.outcomes[each.name].done for each in jobs] == [True, False, False, True]
    assert heard.outcomes["job-0"].facts == {"threads": "1"}
    assert heard.outcomes["job-1"].error == "planning.rho is 7; wanted less"
    assert heard.outcomes["job-2"].error.startswith("ZeroDivisionError: by nought")
    assert heard.notes == ["said by all"] * 2
    assert len({(tmp_path / f"{each.name}.pids").read_text() for each in jobs}) == 1


def test_at_a_stop_the_job_at_work_ends_and_no_other_is_begun(engine, tmp_path):
    heard = Heard(stop=lambda heard: bool(heard.rounds))
    engine.run([job("one", "until-stopped", folder=tmp_path), job("two", folder=tmp_path)], heard)
    assert heard.begins == ["one"]
    assert not heard.outcomes["one"].done
    assert not heard.outcomes["one"].error


def test_signals_to_the_whole_group_are_the_engines_to_answer(engine, tmp_path):
    heard = Heard()
    engine.run([job("one", "signalled", folder=tmp_path), job("two", folder=tmp_path)], heard)
    assert heard.begins == ["one", "two"]
    assert all(outcome.done for outcome in heard.outcomes.values())


def test_at_a_stop_jobs_with_nothing_to_lose_end_at_once_and_one_that_has_played_all_ends_well(tmp_path):
    def deaf(name, plays, *, resumes):
        return job(name, "deaf", folder=tmp_path, plays=plays, resumes=resumes)

    heard = Heard(stop=lambda heard: len(list(tmp_path.glob("*.played"))) == 3)
    began = time.monotonic()
    with LocalEngine(3) as engine:
        jobs = [deaf("early", 0, resumes=True), deaf("half", 2, resumes=False), deaf("all", 3, resumes=False)]
        engine.run([*jobs, job("next", folder=tmp_path)], heard)
    assert time.monotonic() - began < 50
    assert {name: outcome.done for name, outcome in heard.outcomes.items()} == {"early": 0, "half": 0, "all": 1}
    assert not any(outcome.error for outcome in heard.outcomes.values())
    assert not heard.notes


def test_workers_are_forked_by_another_nursery_when_theirs_was_killed(tmp_path):
    heard = Heard()
    with LocalEngine(1) as engine:
        engine.run([job("one", "lost-with-its-nursery-at-first", folder=tmp_path)], heard)
    assert heard.begins == ["one", "one"]
    assert heard.outcomes["one"].done


def test_a_nursery_outlives_signals_from_its_first_moment_and_ends_with_who_began_it():
    nursery = Nursery()
    for kind in (signal.SIGINT, signal.SIGTERM):
        os.kill(nursery.pid, kind)
    with Path(os.devnull).open("r+b") as nothing:
        number = nursery.fork([nothing.fileno()] * 3, os.environ)
    assert nursery.status(number, 60.0) == 1  # nobody speaks to it
    assert nursery.lives
    nursery.close()
    with pytest.raises(ProcessLookupError):
        os.kill(nursery.pid, 0)


def test_a_job_whose_process_was_killed_is_begun_again_by_another(tmp_path):
    heard = Heard()
    with LocalEngine(1) as engine:
        engine.run([job("one", "killed-at-first", folder=tmp_path)], heard)
    assert heard.begins == ["one", "one"]
    assert heard.outcomes["one"].done
    assert "killed by signal 9" in heard.notes[0]
    assert len(set((tmp_path / "one.pids").read_text().split())) == 2


@pytest.mark.slow  # as many processes are started as a job may cost
def test_a_job_that_kills_every_process_is_given_up(tmp_path):
    heard = Heard()
    with LocalEngine(1) as engine:
        engine.run([job("one", "always-killed", folder=tmp_path)], heard)
    assert heard.begins == ["one"] * MOST_TRIES
    assert "3 processes died over it" in heard.outcomes["one"].error


def test_in_one_process_jobs_are_played_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    heard = Heard()
    with InProcess() as engine:
        engine.run([job("one", folder=tmp_path), job("two", "refused", folder=tmp_path)], heard)
    assert [heard.outcomes[name].done for name in ("one", "two")] == [True, False]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "slurm"}, "no engine is called 'slurm'; there are local, ray"),
        ({"name": "local", "gpus": 99}, "--gpus is 99; PyTorch finds"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(asked, said):
    with pytest.raises(ConfigError, match=said):
        make_engine(**asked)
