"""The paper's own example (section 3.3, Fig. 2): four edges, rounds {1,2}, {3,4}, {2,4}, {1,3}."""

import pytest
from simulation_worlds import make_world

from hpfl.training.loop import play_round

SCRIPT = [[0, 1], [2, 3], [1, 3], [0, 2]]
STALENESS = [(0, 0), (1, 1), (1, 0), (2, 1)]


@pytest.mark.parametrize("clock", ["round", "event"])
def test_staleness_on_arrival_is_the_papers(clock):
    world = make_world(planner="scripted", script=SCRIPT, clock=clock)
    state, seen = world.state, []
    for _ in SCRIPT:
        state, record = play_round(state, world.parts, world.settings)
        seen.append(record.staleness)
        assert list(record.aggregated) == SCRIPT[record.round - 1]
    assert seen == STALENESS


def test_the_timeline_tells_the_same_story():
    world = make_world(planner="scripted", script=SCRIPT)
    state, rows = world.state, []
    for _ in SCRIPT:
        state, record = play_round(state, world.parts, world.settings)
        rows += record.phases.rows()
    arrivals = [(row["edge"], row["round"] - 1 - row["base_round"]) for row in rows if row["phase"] == "aggregated"]
    pairs = [list(zip(edges, stale, strict=True)) for edges, stale in zip(SCRIPT, STALENESS, strict=True)]
    assert arrivals == [pair for round_pairs in pairs for pair in round_pairs]
    waits = {row["edge"] for row in rows if row["phase"] == "waiting" and row["round"] == 1}
    assert {2, 3} <= waits
    told = [(row["round"], row["edge"], row["base_round"]) for row in rows if row["phase"] == "broadcast"]
    assert told == [(t + 1, k, t + 1) for t, edges in enumerate(SCRIPT) for k in edges]


def test_a_script_begins_again_when_it_ends():
    world = make_world(planner="scripted", script=SCRIPT, staleness_bound=9)
    state = world.state
    for turn in range(9):
        state, record = play_round(state, world.parts, world.settings)
        assert list(record.scheduled) == SCRIPT[turn % 4]
