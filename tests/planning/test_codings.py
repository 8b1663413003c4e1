"""A menu of codings in a problem: from arrays and documents, with bits that plans go by."""

from dataclasses import replace

import numpy as np
import pytest
from paper_network import paper_network

from hpfl.planning import RoundProblem, plan
from hpfl.planning.codings import Codings
from hpfl.planning.documents import plan_to_json
from hpfl.planning.rules import ProblemError
from hpfl.reporting.plans import headline

MENU = Codings(ue_bits=(1e6, 1e5), edge_bits=(2e6, 5e4), noise=np.outer(np.arange(1.0, 5.0), [0.0, 2.0]))


def with_menu(menu=MENU):
    problem = paper_network(3, K=4, ues=2)
    return replace(problem, codings=menu)


def document(**changes):
    """A round of two edges as JSON says it, with a menu."""
    ue = {"gain": 1e-7, "power_w": 0.01, "compute_s": 0.0}
    edge = {"gain": 1e-9, "power_w": 0.01, "importance": 2.0, "coding_noise": [0, 0.5]}
    numbers = {"bandwidth_hz": 5e6, "noise_w_per_hz": 4e-21, "model_bits": 1e6, "rho": 0.8, "phi": 1.0}
    return {
        **numbers,
        "max_edges": 1,
        "staleness_bound": 5,
        "edges": [{**edge, "ues": [ue, {**ue, "bits": 0}]}, {**edge, "coding_noise": [0, 1.5], "ues": [ue]}],
        "codings": {"ue_bits": [3e5, 1e4], "edge_bits": [2e5, 1e4]},
    } | changes


def plain_edges():
    """The edges of a document that has no menu."""
    return [{key: value for key, value in edge.items() if key != "coding_noise"} for edge in document()["edges"]]


def test_links_have_the_bits_of_the_first_entry_and_coded_ones_those_of_another():
    problem = with_menu()
    assert set(problem.ue_bits) == {1e6}
    assert set(problem.edge_bits) == {2e6}
    coded = problem.coded(1)
    assert (set(coded.ue_bits), set(coded.edge_bits)) == ({1e5}, {5e4})
    assert plan(coded, "full", certify=False).round_latency_s < plan(problem, "full", certify=False).round_latency_s


def test_what_a_coding_usually_adds_is_its_noise_over_the_signal_where_nothing_is_said():
    problem = with_menu()
    assert problem.codings.usual == pytest.approx((0.0, 20.0 / problem.importance.sum()))
    assert with_menu(replace(MENU, usual=(0.0, 7.0))).codings.usual == (0.0, 7.0)


def test_a_document_may_have_a_menu_and_the_plan_says_which_entry():
    problem = RoundProblem.from_json(document())
    assert problem.codings.noise.tolist() == [[0.0, 0.5], [0.0, 1.5]]
    assert problem.codings.usual == (0.0, 0.5)
    assert problem.ue_bits.tolist() == [3e5, 0.0, 3e5]
    for planner in ("joint", "fastest"):
        made = plan(problem, planner)
        assert plan_to_json(problem, made, 0.0)["coding"] == made.coding
        assert f"coding {made.coding} of 0 to 1" in str(headline(problem, made, 0.0))
    assert plan(problem, "joint", certify=False).coding == 0


def test_a_document_may_have_a_menu_and_a_way_down():
    problem = RoundProblem.from_json(document(downlink={"step_bits": 2e4}))
    assert problem.downlink.step_bits == (2e4, 2e4)
    for planner in ("joint", "fastest"):
        assert plan(problem, planner).broadcast_s > 0


def test_the_menu_of_the_way_down_is_as_long_as_that_of_the_way_up():
    down = RoundProblem.from_json(document(codings=None, edges=plain_edges(), downlink={})).downlink
    problem = RoundProblem.from_json(document())
    with pytest.raises(ProblemError, match=r"step_bits has 1 entries; one for each of 2 codings was wanted"):
        replace(problem, downlink=down)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"codings": 3}, "codings is 3; an object with ue_bits and edge_bits was wanted"),
        ({"codings": {"ue_bits": [1]}}, "an object with ue_bits and edge_bits was wanted"),
        ({"codings": {"ue_bits": [], "edge_bits": [1]}}, r"codings.ue_bits is \[\]; a list of numbers was wanted"),
        ({"codings": {"ue_bits": [-1, 2], "edge_bits": [1, 2]}}, r"codings.ue_bits\[0\] is -1"),
        ({"codings": {"ue_bits": [1], "edge_bits": [1]}}, r"noise of shape \(2, 2\)"),
        ({"codings": None}, r"edges\[0\].coding_noise is given; codings with ue_bits and edge_bits were wanted too"),
    ],
)
def test_faults_of_a_documents_menu_are_named(changes, said):
    with pytest.raises(ProblemError, match=said):
        RoundProblem.from_json(document(**changes))


@pytest.mark.parametrize(
    ("menu", "said"),
    [
        (replace(MENU, noise=-MENU.noise), r"codings.noise\[0, 1\] is -2.0; what a coding adds to an update must"),
        (replace(MENU, noise=MENU.noise[:3]), "codings.noise has 3 rows; one for each of 4 edges was wanted"),
        (replace(MENU, edge_bits=(np.nan, 1.0)), r"codings.edge_bits\[0\] is NaN"),
    ],
)
def test_faults_of_a_menu_of_arrays_are_named(menu, said):
    with pytest.raises(ProblemError, match=said):
        with_menu(menu)
