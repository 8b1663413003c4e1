"""The law of every clock and watcher."""

import itertools
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from hpfl.config import ConfigError
from hpfl.training.clock import CLOCKS
from hpfl.training.loop import play_round
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


@pytest.mark.parametrize("name", WATCHERS.names())
def test_a_watcher_needs_no_folder_and_one_that_lacks_its_package_names_the_extra(name):
    if find_spec(getattr(WATCHERS.part(name).made, "package", "hpfl")) is not None:
        assert WATCHERS.get(name)(None) is not None
        return
    with pytest.raises(ConfigError, match=re.escape(f"pip install 'hpfl[{name}]'")):
        WATCHERS.get(name)(None)
