"""Study `whole-cost-settled`: what it runs is what the recorded development runs settled, on seeds of its own."""

import csv
from pathlib import Path

import pytest

from hpfl.studies import whole_cost_settled
from hpfl.studies.cases import FULL, QUICK
from hpfl.studies.whole_cost_choice import Development
from hpfl.studies.whole_cost_places import DEVELOPMENT, UNSEEN, places
from hpfl.studies.whole_cost_settled import FRESH, settled
from hpfl.studies.whole_cost_ways import LONG_FULL, LONG_OURS, OURS, PRICED, contenders

RECORDED = Path(__file__).parents[2] / "docs/reproduction/whole-cost/development.csv"


def recorded():
    """The development runs that are written down."""
    rows = {}
    with RECORDED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = {
                "reached": row["reached"] == "True",
                "time_s": float(row["time_s"] or "inf"),
                "best_accuracy": float(row["best_accuracy"]),
            }
            rows.setdefault((row["data"], row["place"], row["contender"]), {})[int(row["seed"])] = found
    return Development(DEVELOPMENT, rows)


@pytest.mark.parametrize("name", ["skew-0", "skew-1"])
def test_rivals_run_with_what_won_the_recorded_development_runs(name):
    known = recorded()
    place = next(place for place in places(FULL) if place.key == ("mnist", name))
    chosen = {one.name: known.chosen(place, one) for one in contenders(place) if one.group == "rivals"}
    ours = {one.name: way for one, way in settled(place) if one.group == "rivals"}
    assert ours == {rival: chosen[rival] for rival in ours}
    assert chosen.keys() - ours.keys() == {"joint"}
    assert chosen["joint"]._replace(planner="paper+p4") == chosen["paper+p4"]


def test_its_seeds_are_none_that_others_chose_or_judged_by():
    parts = whole_cost_settled.parts(FULL, range(5))
    seeds = {part.labels["seed"] for part in parts}
    assert seeds == set(range(FRESH, FRESH + 5))
    assert not seeds & {*DEVELOPMENT, *range(UNSEEN, UNSEEN + 5)}
    assert len({part.name for part in parts}) == len(parts)


def test_fastest_is_everywhere_with_something_fixed_beside_it():
    for place in {part.labels["place"] for part in whole_cost_settled.parts(FULL, [0])}:
        here = [part.labels for part in whole_cost_settled.parts(FULL, [0]) if part.labels["place"] == place]
        assert {one["contender"] for one in here} >= {OURS}
        assert {one["group"] for one in here} >= {"ours", "fixed"}
        assert (PRICED in {one["contender"] for one in here}) == place.startswith("skew")
    assert {part.labels["contender"] for part in whole_cost_settled.parts(QUICK, [0])} == {OURS, "full"}


def test_fastest_goes_on_for_as_long_as_full_took_to_converge():
    place = next(place for place in places(FULL) if place.key == ("mnist", "skew-0"))
    [full] = [part for part in whole_cost_settled.then(FULL, [0], []) if part.labels["place"] == place.name]
    assert full.labels["contender"] == LONG_FULL
    found = [{"labels": full.labels, "rounds": {"time_s": [1.0, 7.25]}}]
    ours = [part for part in whole_cost_settled.then(FULL, [0], found) if part.labels["contender"] == LONG_OURS]
    assert [part.stop_at_s for part in ours] == [7.25]
