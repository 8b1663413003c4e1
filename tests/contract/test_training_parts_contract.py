"""The law of every clock, way of joining updates, and watcher."""

import itertools
import sys
from pathlib import Path

import pytest
import torch

from hpfl.training.clock import CLOCKS
from hpfl.training.combine import COMBINES
from hpfl.training.loop import play_round
from hpfl.training.state import EdgeUpdate
from hpfl.training.watching import WATCHERS

sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))
from simulation_worlds import make_world


def played(clock, rounds=5):
    world = make_world(clock=clock, planner="random")
    state, records = world.state, []
    for _ in range(rounds):
        state, record = play_round(state, world.parts, world.settings)
        records.append(record)
    return state, records


@pytest.mark.parametrize("name", CLOCKS.names())
def test_time_goes_on_edges_arrive_and_a_run_repeats(name):
    state, records = played(name)
    times = [record.time_s for record in records]
    assert all(later > earlier for earlier, later in itertools.pairwise([0.0, *times]))
    assert all(record.aggregated and set(record.aggregated) <= set(record.scheduled) for record in records)
    again, _ = played(name)
    assert torch.equal(state.params, again.params)


def updates(rows):
    rest = {"base_round": 0, "importance": 1.0}
    return [EdgeUpdate(member=k, update=torch.tensor(row), weight=1.0 + k, **rest) for k, row in enumerate(rows)]


@pytest.mark.parametrize("name", COMBINES.names())
def test_joining_agrees_with_those_who_agree_and_minds_no_order(name):
    join = COMBINES.get(name)
    assert torch.allclose(join(updates([[1.5, -2.0]] * 3)), torch.tensor([1.5, -2.0], dtype=torch.float64))
    mixed = updates([[1.0, 0.0], [0.5, -3.0], [2.0, 8.0]])
    results = [join(order) for order in itertools.permutations(mixed)]
    assert results[0].dtype == torch.float64
    assert all(torch.equal(results[0], other) for other in results)


def test_a_watcher_needs_no_folder():
    for name in WATCHERS.names():
        assert WATCHERS.get(name)(None) is not None
