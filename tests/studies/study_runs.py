"""Small parts of studies, run as `hpfl reproduce` runs them."""

from rich.console import Console

import hpfl
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.runner import run_parts

SMALL = ["network.edges=3", "network.ues_per_edge=2", "data.samples_per_ue=[5, 9]", "evaluation.test_samples=5"]


def part(name="a/one", *, rounds=3, **changes):
    """A run of a moment."""
    overrides = [*SMALL, f"training.rounds={rounds}", "evaluation.every=1", "planning.max_edges=2"]
    config = hpfl.load("quickstart-paper", overrides=overrides)
    return StudyPart(**({"name": name, "labels": {"name": name}, "config": config} | changes))


def runs(parts, out, **more):
    """Run the parts; whether all are done."""
    return run_parts(parts, out, device="cpu", console=Console(quiet=True), **more)


def rounds_of(one, out):
    """Its numbers, but for the time that planning took."""
    return {name: column for name, column in done(one, out)["rounds"].items() if name != "planning_s"}
