"""Every round's plan is checked, whoever planned it: a run with a planner that cheats ends with a sentence."""

from dataclasses import replace

import numpy as np
import pytest
from simulation_worlds import make_world
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.planning.checking import PlanError
from hpfl.planning.planners import PLANNERS
from hpfl.training.cloud_step import DivergedError
from hpfl.training.loop import play_round

SMALL = ["network.edges=4", "network.ues_per_edge=1", "data.samples_per_ue=[5, 10]", "training.rounds=3"]


def wide(plan, problem):
    return replace(plan, ue_bandwidth_hz=8.0 * plan.ue_bandwidth_hz, edge_bandwidth_hz=8.0 * plan.edge_bandwidth_hz)


def silent(plan, problem):
    return replace(plan, scheduled=np.zeros_like(plan.scheduled))


def forgetful(plan, problem):
    return replace(plan, scheduled=~problem.must)


def crowded(plan, problem):
    return replace(PLANNERS.get("full")(problem, {}, None)[0], exceeds_cap=False)


def optimistic(plan, problem):
    return replace(plan, round_latency_s=0.5 * plan.round_latency_s)


def cheating(how, since=2):
    def mine(problem, memory, stream):
        plan, memory = PLANNERS.get("random")(problem, memory, stream)
        return (plan if stream.round < since else how(plan, problem)), memory

    return mine


def played(world, rounds):
    state = world.state
    for _ in range(rounds):
        state, _ = play_round(state, world.parts, world.settings)
    return state


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (wide, "hands out 8 MHz of 1 MHz"),
        (silent, "schedules none of 4 edges"),
        (forgetful, "has reached the bound of 1"),
        (crowded, "schedules 4 edges of at most"),
        (optimistic, "promises a round of"),
        (lambda plan, problem: None, "answers with None in place of a Plan"),
    ],
)
@pytest.mark.parametrize("clock", ["round", "event"])
def test_a_cheating_planner_ends_the_run_in_the_round_it_cheats(clock, how, said):
    bound = 1 if how is forgetful else 5
    world = make_world(clock=clock, planner=cheating(how), staleness_bound=bound, max_edges=2)
    assert played(world, 2).round == 2
    with pytest.raises(PlanError, match=f"^round 3: planner mine .*{said}"):
        played(world, 3)


@pytest.mark.parametrize("how", ["hpfl run", "hpfl.run"])
def test_a_run_with_a_cheating_planner_is_no_completed_run(monkeypatch, tmp_path, how):
    made = PLANNERS._made("wide", cheating(wide, since=1), "elsewhere", None, {})
    monkeypatch.setitem(PLANNERS._parts, "wide", made)
    if how == "hpfl.run":
        with pytest.raises(PlanError, match="round 2: planner wide hands out 40 MHz of 5 MHz"):
            hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, "planning.planner=wide"]), hooks=hpfl.Hooks())
        return
    sets = [word for change in (*SMALL, "planning.planner=wide") for word in ("--set", change)]
    done = CliRunner().invoke(app, ["run", "quickstart-paper", *sets, "--out", str(tmp_path / "run"), "-q"])
    assert (done.exit_code, done.stderr) == (2, "hpfl: round 2: planner wide hands out 40 MHz of 5 MHz\n")
    assert not (tmp_path / "run" / "summary.json").exists()


def test_updates_that_have_grown_beyond_all_bounds_are_a_diverged_run():
    world = make_world(planner="joint")

    class Grown:
        def __getattr__(self, name):
            return getattr(world.executor, name)

        def observe(self, state):
            return replace(world.executor.observe(state), importance=np.full(4, np.inf))

    with pytest.raises(DivergedError, match="an edge's update has a squared norm of inf"):
        play_round(world.state, replace(world.parts, executor=Grown()), world.settings)
