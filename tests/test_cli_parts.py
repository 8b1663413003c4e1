"""`hpfl parts` lists every kind of part with its options."""

import json

import pytest
from typer.testing import CliRunner

from hpfl.cli import app
from hpfl.config.kinds import kinds
from hpfl.options import Options, option
from hpfl.planning.planners import PLANNERS
from hpfl.registry import part


def parts(*words):
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["parts", *words])
    return answer.exit_code, answer.output


def test_all_kinds_are_listed_with_their_keys_and_parts():
    status, said = parts()
    assert status == 0
    for kind in kinds():
        assert all(place in said for place in kind.places)
        assert all(name in said for name in kind.registry)


def test_an_option_is_listed_with_default_unit_and_meaning(monkeypatch):
    class Mine(Options):
        patience_s: float = option(2.5, "how long it waits", unit="s", gt=0)

    def mine(problem, memory, stream, *, options):
        """A planner of another package."""

    made = PLANNERS._made("mine", part(options=Mine)(mine), "their-package", None, {})
    monkeypatch.setitem(PLANNERS._parts, "mine", made)
    status, said = parts("planners")
    assert status == 0
    assert "A planner of another package. (from their-package)" in said
    assert "patience_s = 2.5  [s] how long it waits" in said
    told = json.loads(parts("planner", "--json")[1])["planner"]
    assert told["keys"] == ["planning.planner"]
    mine = next(one for one in told["parts"] if one["name"] == "mine")
    assert mine["origin"] == "their-package"
    assert mine["options"] == [
        {"name": "patience_s", "default": 2.5, "needed": False, "unit": "s", "meaning": "how long it waits"}
    ]


def test_a_part_that_cannot_be_imported_hides_no_other(monkeypatch):
    def broken():
        raise ImportError("no module named theirs")

    monkeypatch.setitem(PLANNERS._parts, "theirs", broken)
    status, said = parts("planner")
    assert status == 0
    assert "cannot be used: ImportError: no module named theirs" in said
    assert "joint" in said


@pytest.mark.parametrize("name", ["path loss", "path-losses", "Path_Loss"])
def test_a_kind_may_be_written_in_several_ways(name):
    assert "power-law" in parts(name)[1]


def test_an_unknown_kind_is_answered_with_the_known_ones():
    status, said = parts("planer")
    assert status == 2
    assert "no kind of part is called 'planer'; did you mean planner? there are path loss, channel" in said
