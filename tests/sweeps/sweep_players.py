"""Jobs of a moment for engines: what a player does is told by its task."""

import os
import signal
import time
from pathlib import Path

from hpfl.config import ConfigError
from hpfl.sweeps.jobs import Job


def job(name, does="nothing", *, folder="", rounds=3, resumes=True, **task):
    """A job that is played here."""
    task = {"does": does, "folder": str(folder), "name": name, **task}
    return Job(name=name, player=f"{__name__}:play", task=task, rounds=rounds, resumes=resumes)


def play(task, playing):
    """Do as the task says; leave the number of the process that did."""
    mark = Path(task["folder"]) / f"{task['name']}.pids"
    with mark.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return _DOES[task["does"]](task, playing)


def _nothing(task, playing):
    print("a part may print what it likes")
    playing.on_round(1)
    playing.note("said by all")
    return {"done": True, "threads": os.environ["OMP_NUM_THREADS"]}


def _refused(task, playing):
    raise ConfigError("planning.rho is 7; wanted less")


def _raises(task, playing):
    raise ZeroDivisionError("by nought")


def _killed_at_first(task, playing):
    """Its process is killed the first time it is played."""
    first = Path(task["folder"]) / f"{task['name']}.first"
    if not first.exists():
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"done": True}


def _always_killed(task, playing):
    os.kill(os.getpid(), signal.SIGKILL)


def _until_stopped(task, playing):
    number = 0
    while not playing.should_stop():
        number += 1
        playing.on_round(number)
        time.sleep(0.01)
    return {"done": False}


def _signalled(task, playing):
    """A whole group of processes is sent what the engine answers for all."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), kind)
        os.kill(os.getppid(), kind)
    return {"done": True}


def _lost_with_its_nursery_at_first(task, playing):
    first = Path(task["folder"]) / f"{task['name']}.first"
    if not first.exists():
        first.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"done": True}


def _deaf(task, playing):
    """Plays so many rounds, then ends in a moment or, unless it has played all, goes on for long; nobody stops it."""
    for number in range(1, task["plays"] + 1):
        playing.on_round(number)
    (Path(task["folder"]) / f"{task['name']}.played").touch()
    time.sleep(1 if task["plays"] == 3 else 60)
    return {"done": True}


_DOES = {
    "nothing": _nothing,
    "refused": _refused,
    "raises": _raises,
    "killed-at-first": _killed_at_first,
    "always-killed": _always_killed,
    "until-stopped": _until_stopped,
    "signalled": _signalled,
    "lost-with-its-nursery-at-first": _lost_with_its_nursery_at_first,
    "deaf": _deaf,
}


class Heard:
    """A course that writes down what it hears, and asks for a stop once `stop` says so."""

    def __init__(self, stop=lambda heard: False):
        self.stop, self.begins, self.rounds, self.notes, self.outcomes = stop, [], [], [], {}

    def begun(self, job):
        self.begins.append(job.name)

    def round(self, job, number):
        self.rounds.append((job.name, number))

    def note(self, job, text):
        self.notes.append(text)

    def ended(self, job, outcome):
        self.outcomes[job.name] = outcome

    def should_stop(self):
        return self.stop(self)
