"""Problems of arrays: the rules and sentences of a document, places by array and index, and UEs in any order."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

import hpfl
from hpfl.planning.documents import plan_to_json
from hpfl.planning.planners import PLANNERS
from hpfl.planning.rules import ProblemError
from hpfl.rng import Stream

DOCUMENT = {
    "bandwidth_hz": 5e6,
    "noise_w_per_hz": 4e-21,
    "model_bits": 1e6,
    "rho": 0.8,
    "phi": 9.33,
    "max_edges": 2,
    "staleness_bound": 20,
    "edges": [
        {
            "gain": 1e-9,
            "power_w": 0.01,
            "importance": 1.0 + edge,
            "ues": [{"gain": 1e-7, "power_w": 0.01, "compute_s": 0.02, "energy_j": 1.0} for _ in range(2)],
        }
        for edge in range(2)
    ],
}


def arrays(**changes):
    """The fields of the document's problem."""
    problem = hpfl.RoundProblem.from_json(DOCUMENT)
    names = {field.name for field in (*fields(problem), *fields(problem.links))} - {"links"}
    return {name: getattr(problem, name) for name in names} | changes


def said_of_document(place, value):
    """The sentence about `value` at a place of the document: a key, or an edge's or a UE's."""
    document = json.loads(json.dumps(DOCUMENT))
    where = {"top": document, "edge": document["edges"][1], "ue": document["edges"][1]["ues"][0]}[place[0]]
    where[place[1]] = value
    with pytest.raises(ProblemError) as caught:
        hpfl.RoundProblem.from_json(document)
    return str(caught.value)


def said_of_arrays(name, index, value):
    """The sentence about `value` in an array, or in place of a number."""
    given = arrays()
    if index is None:
        given[name] = value
    else:
        given[name] = given[name].astype(np.float64).copy()
        given[name][index] = value
    with pytest.raises(ProblemError) as caught:
        hpfl.RoundProblem(**given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "name", "index"),
    [
        (("top", "bandwidth_hz"), "bandwidth_hz", None),
        (("top", "rho"), "rho", None),
        (("top", "phi"), "phi", None),
        (("top", "max_edges"), "max_edges", None),
        (("top", "staleness_bound"), "staleness_bound", None),
        (("edge", "gain"), "edge_gain", 1),
        (("edge", "power_w"), "edge_power_w", 1),
        (("edge", "noise_w_per_hz"), "edge_noise_w_per_hz", 1),
        (("edge", "bits"), "edge_bits", 1),
        (("edge", "importance"), "importance", 1),
        (("edge", "staleness"), "staleness", 1),
        (("ue", "gain"), "ue_gain", 2),
        (("ue", "power_w"), "ue_power_w", 2),
        (("ue", "noise_w_per_hz"), "ue_noise_w_per_hz", 2),
        (("ue", "bits"), "ue_bits", 2),
        (("ue", "compute_s"), "compute_s", 2),
        (("ue", "energy_j"), "ue_energy_j", 2),
    ],
)
@pytest.mark.parametrize("value", [-0.5, 1e61, float("nan"), -float("inf")])
def test_both_doors_refuse_the_same_with_the_same_sentence(place, name, index, value):
    document, array = said_of_document(place, value), said_of_arrays(name, index, value)
    assert array.startswith(f"{name} is " if index is None else f"{name}[{index}] is ")
    assert array.split(" is ", 1)[1] == document.split(" is ", 1)[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ue_gain": [-70.0, -71.5, -80.0, -75.0]}, r"ue_gain\[0\] is -70.0; a power gain must be positive"),
        ({"bandwidth_hz": 0}, "bandwidth_hz is 0; the bandwidth to share in Hz must be positive"),
        ({"rho": 3}, "rho is 3; the weight of importance must lie between 0 and 1"),
        ({"max_edges": 0}, "max_edges is 0; the most edges of a round must be a whole number, 1 or more"),
        ({"max_edges": 1.5}, "max_edges is 1.5; the most edges"),
        ({"rho": True}, "rho is true; the weight of importance must be a number"),
        ({"rho": "0.8"}, 'rho is "0.8"; the weight of importance must be a number'),
        ({"phi": 10**400}, "phi is 1000"),
        ({"ue_bits": np.ones(3)}, r"ue_bits has the shape \(3,\); one number for each of 4 UEs was wanted"),
        ({"edge_gain": np.ones((2, 1))}, r"edge_gain has the shape \(2, 1\); one row of numbers was wanted"),
        ({"importance": 1.0}, r"importance has the shape \(\); one number for each of 2 edges was wanted"),
        ({"edge_gain": []}, "edge_gain is empty; at least one was wanted"),
        ({"ue_gain": ["a"] * 4}, "ue_gain is .*; an array of numbers was wanted"),
        ({"ue_gain": [[1], [1, 2], 3, 4]}, "ue_gain is .*; an array of numbers was wanted"),
        ({"ue_gain": None}, "ue_gain is null; an array of numbers was wanted"),
        ({"ue_gain": np.ones(4, dtype=bool)}, "ue_gain is an array of bool; an array of numbers was wanted"),
        ({"edge_of_ue": [0, 0, 1, 2]}, r"edge_of_ue\[3\] is 2; the edge of a UE must be a whole number from 0 to 1"),
        ({"edge_of_ue": [0, 0, 1, -1]}, r"edge_of_ue\[3\] is -1"),
        ({"edge_of_ue": [0, 0, 1, 0.5]}, r"edge_of_ue\[3\] is 0.5"),
        ({"edge_of_ue": [1, 1, 1, 1]}, "edge_of_ue has no UE of edge 0; every edge needs at least one"),
        ({"staleness": [0, 1.5]}, r"staleness\[1\] is 1.5; a staleness in rounds must be a whole number, 0 or more"),
        ({"sketches": np.ones((3, 4))}, r"sketches has the shape \(3, 4\); one row for each of 2 edges was wanted"),
        ({"sketches": [[1, 2], [3, np.nan]]}, r"sketches\[1\]\[1\] is NaN; an entry of a sketch must be finite"),
        ({"sketches": [[1, 2], [3, -2e60]]}, r"must be finite \(between -1e\+60 and 1e\+60\)"),
        ({"overhead_s": -1.0}, "overhead_s is -1.0; what a round takes beside its uploads"),
        ({"renewal_s": [0.1, -1.0]}, r"renewal_s\[1\] is -1.0; a compute time in s must be zero or positive"),
        ({"edge_ids": ("a",)}, "edge_ids has 1 names; 2 were wanted"),
        ({"edge_ids": ("a", "a")}, r'edge_ids\[1\] is "a", as is edge_ids\[0\]; ids must differ'),
        ({"edge_ids": ("a", 7)}, r"edge_ids\[1\] is 7; an id must be a string that is not empty"),
        ({"ue_ids": ("a", "b", "c", "c")}, r'ue_ids\[3\] is "c", as is ue_ids\[2\]; ids must differ'),
    ],
)
def test_a_mistake_is_named_with_its_place(changes, said):
    with pytest.raises(ProblemError, match=said) as caught:
        hpfl.RoundProblem(**arrays(**changes))
    assert str(caught.value).isprintable()


def test_whatever_numpy_reads_as_numbers_will_do():
    plain = hpfl.plan(hpfl.RoundProblem(**arrays()))
    given = arrays(
        edge_gain=[1e-9, 1e-9],
        staleness=[0.0, 0.0],
        edge_of_ue=np.array([0, 0, 1, 1], dtype=np.uint8),
        importance=np.array([1, 2], dtype=np.int32),
        bandwidth_hz=np.float32(5e6),
        max_edges=np.int64(2),
        ue_bits=[10**6] * 4,
    )
    problem = hpfl.RoundProblem(**given)
    assert problem.staleness.dtype == problem.edge_of_ue.dtype == np.int64
    assert problem.importance.dtype == problem.ue_bits.dtype == np.float64
    assert isinstance(problem.max_edges, int)
    np.testing.assert_array_equal(hpfl.plan(problem).ue_bandwidth_hz, plain.ue_bandwidth_hz)


def test_single_precision_gains_are_taken_as_they_are():
    problem = hpfl.RoundProblem(**arrays(ue_gain=np.full(4, 1e-7, dtype=np.float32)))
    assert problem.ue_gain.dtype == np.float64
    np.testing.assert_allclose(problem.ue_gain, 1e-7, rtol=1e-6)


def test_an_array_of_float64_is_kept_and_not_copied():
    gain = np.full(4, 1e-7)
    assert hpfl.RoundProblem(**arrays(ue_gain=gain)).ue_gain is gain


def test_zeros_and_boundless_energies_are_allowed_where_they_mean_something():
    problem = hpfl.RoundProblem(
        **arrays(
            ue_bits=[0.0, -0.0, 1e6, 1e6],
            edge_bits=[0.0, 1e6],
            compute_s=[0.0, -0.0, 0.1, 0.1],
            importance=[0.0, -0.0],
            phi=-0.0,
            rho=0,
            ue_energy_j=[np.inf, 1.0, np.inf, 2.0],
        )
    )
    assert np.isfinite(hpfl.plan(problem).round_latency_s)


def test_a_replaced_field_is_checked_like_the_first():
    with pytest.raises(ProblemError, match="rho is 3"):
        replace(paper_network(), rho=3)


def test_what_the_round_itself_makes_is_taken_on_trust():
    assert replace(paper_network(), rho=3, trusted=True).rho == 3


def shuffled(problem, seed):
    """The same problem with its UEs in a random order, and that order."""
    order = np.random.default_rng(seed).permutation(problem.num_ues)
    names = ("edge_of_ue", "ue_gain", "ue_power_w", "ue_noise_w_per_hz", "ue_bits", "compute_s", "ue_energy_j")
    moved = {name: getattr(problem, name) for name in names}
    moved = {name: None if array is None else array[order] for name, array in moved.items()}
    ids = None if problem.ue_ids is None else tuple(problem.ue_ids[ue] for ue in order)
    return replace(problem, **moved, ue_ids=ids), order


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(PLANNERS.names())), energy=st.booleans())
def test_ues_in_any_order_get_what_they_get_when_sorted_by_edge(seed, name, energy):
    problem = paper_network(seed, K=4, ues=3, staleness=np.zeros(4, dtype=np.int64))
    problem = replace(problem, ue_energy_j=np.full(12, 1e-3) if energy else None)
    mixed, order = shuffled(problem, seed)
    plain, moved = hpfl.plan(problem, name), hpfl.plan(mixed, name)
    np.testing.assert_array_equal(moved.scheduled, plain.scheduled)
    for by_ue in ("ue_bandwidth_hz", "ue_power_w", "upload_s"):
        np.testing.assert_allclose(getattr(moved, by_ue), getattr(plain, by_ue)[order], rtol=1e-8)
    for by_edge in ("edge_bandwidth_hz", "latency_s", "round_latency_s", "objective"):
        np.testing.assert_allclose(getattr(moved, by_edge), getattr(plain, by_edge), rtol=1e-8)


def test_the_caller_finds_its_arrays_in_the_order_it_gave_them():
    mixed, _ = shuffled(paper_network(1, K=3, ues=2), 0)
    before = mixed.edge_of_ue.copy()
    hpfl.plan(mixed)
    np.testing.assert_array_equal(mixed.edge_of_ue, before)


@pytest.mark.parametrize("name", sorted(set(PLANNERS.names()) - {"shpfl"}))
def test_a_planner_by_itself_refuses_ues_out_of_order(name):
    mixed, _ = shuffled(paper_network(1, K=3, ues=2), 0)
    with pytest.raises(ProblemError, match="a planner takes UEs sorted by edge"):
        PLANNERS.get(name)(mixed, {}, Stream(0, "planning"))


def test_the_same_hz_for_all_is_right_in_any_order():
    problem = paper_network(1, K=3, ues=2)
    mixed, order = shuffled(problem, 0)
    plan, _ = PLANNERS.get("shpfl")(mixed, {}, Stream(0, "planning"))
    np.testing.assert_array_equal(plan.upload_s, hpfl.plan(problem, "shpfl").upload_s[order])


def test_the_written_plan_of_ues_in_any_order_is_that_of_sorted_ones():
    problem = hpfl.RoundProblem.from_json(DOCUMENT)
    mixed = replace(shuffled(problem, 1)[0], ue_ids=None)
    named, _ = shuffled(replace(problem, ue_ids=("a", "b", "c", "d")), 1)
    written = plan_to_json(named, hpfl.plan(named), 0.0)
    assert {row["id"] for row in written["edges"][0]["ues"]} == {"a", "b"}
    assert plan_to_json(mixed, hpfl.plan(mixed), 0.0)["edges"][1]["ues"][0]["id"] == "0"
