"""Where a third may collude and a third drop out, a sparse graph spares nothing against an edge that lies."""

from math import comb

import numpy as np
import pytest

from hpfl.secrecy import LARGEST_CELL
from hpfl.secrecy.graph import Degree, RiskyCell, chance_of_at_least, degree
from hpfl.secrecy.session import Instance, Session


@pytest.mark.parametrize(("of", "marked", "drawn"), [(9, 3, 4), (9, 0, 4), (9, 9, 4), (9, 3, 9), (1023, 341, 340)])
def test_tails_are_those_of_exact_counts(of, marked, drawn):
    ways = [comb(marked, x) * comb(of - marked, drawn - x) if x <= marked else 0 for x in range(drawn + 1)]
    exact = [sum(ways[x:]) / comb(of, drawn) for x in range(drawn + 2)]
    np.testing.assert_allclose(chance_of_at_least(of, marked, drawn), exact, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("members", [3, 7, 10, 12, 50, 99, 100, 101, 256, 500, 1000, LARGEST_CELL])
def test_against_an_edge_that_lies_a_third_and_a_third_need_all_others_or_all_but_one(members):
    found = degree(RiskyCell.of_thirds(members), edge_lies=True)
    assert found is not None
    assert members - 2 <= found.neighbours <= members - 1


@pytest.mark.parametrize("members", range(2, LARGEST_CELL + 1, 73))
def test_the_threshold_of_a_session_is_enough_in_the_complete_graph(members):
    """By counting alone: chance has no part where all others are neighbours."""
    threshold = Session(b"x", members, (Instance("update", 1, 8),)).threshold
    third = (members - 1) // 3
    assert 2 * threshold > members + third
    assert threshold <= members - third


@pytest.mark.parametrize(
    ("cell", "edge_lies", "wanted"),
    [
        (RiskyCell.of_thirds(100), False, Degree(99, 34)),
        (RiskyCell.of_thirds(1000), False, Degree(342, 172)),
        (RiskyCell(1000, 50, 50), False, Degree(36, 18)),
        (RiskyCell(1000, 50, 50), True, Degree(68, 46)),
    ],
)
def test_degrees_that_the_documentation_names(cell, edge_lies, wanted):
    assert degree(cell, edge_lies=edge_lies) == wanted


def test_what_no_number_of_neighbours_withstands_has_no_degree():
    assert degree(RiskyCell(100, 50, 25), edge_lies=True) is None
    assert degree(RiskyCell(100, 33, 34), edge_lies=True) is None
    assert degree(RiskyCell(100, 34, 33), edge_lies=True) is None


def test_more_risk_or_fewer_who_collude_ask_for_no_more_neighbours():
    of = lambda *parts: degree(RiskyCell(300, *parts), edge_lies=True).neighbours  # noqa: E731
    assert of(30, 30, 20) <= of(30, 30, 40) <= of(30, 30, 60)
    assert of(10, 30) <= of(30, 30) <= of(60, 30)
