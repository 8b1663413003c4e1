"""Problems and plans of some of the edges: no array is forgotten, whichever there are."""

from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

from hpfl.network import Links
from hpfl.planning import Allocation, Plan, RoundProblem, Times, finish_plan, plan
from hpfl.records import PER_EDGE, counted
from hpfl.training.present_edges import over_all, without_absent

K, UES = 5, 3
N = K * UES


def everything(seed=0):
    """A problem in which no optional array is missing, and no two entries of one are equal."""
    draw = np.random.default_rng(seed)
    return paper_network(
        seed,
        K=K,
        ues=UES,
        members=100 + draw.permutation(N),
        ue_energy_j=draw.random(N) + 1.0,
        compute_j=draw.random(N),
        sketches=draw.random((K, 4)),
        renewal_s=draw.random(K),
        edge_ids=tuple(f"edge {edge}" for edge in range(K)),
        ue_ids=tuple(f"ue {ue}" for ue in range(N)),
    )


def flat(record):
    """All arrays and tuples of a record, at whatever depth, by name."""
    found = {}
    for name, value in asdict(record).items():
        found |= value if isinstance(value, dict) else {name: value}
    return {name: np.asarray(value) for name, value in found.items() if isinstance(value, np.ndarray | tuple)}


some_edges = st.lists(st.integers(0, K - 1), min_size=1, unique=True).map(np.array)


@settings(deadline=None, max_examples=40)
@given(edges=some_edges)
def test_every_array_of_a_problem_is_cut_to_the_edges_and_to_the_ues_under_them(edges):
    whole, cut = everything(), everything().of_edges(edges)
    under = np.isin(whole.edge_of_ue, edges)
    assert len(flat(whole)) == len(list(counted(whole)))
    for name, value in flat(whole).items():
        wanted = value[edges] if value.shape[0] == K else value[under]
        if name == "edge_of_ue":
            wanted = np.array([edges.tolist().index(edge) for edge in wanted])
        np.testing.assert_array_equal(flat(cut)[name], wanted, err_msg=name)


@settings(deadline=None, max_examples=20)
@given(edges=some_edges, data=st.data())
def test_some_edges_of_some_edges_are_some_edges(edges, data):
    places = data.draw(st.lists(st.integers(0, edges.size - 1), min_size=1, unique=True).map(np.array))
    np.testing.assert_equal(
        asdict(everything().of_edges(edges).of_edges(places)), asdict(everything().of_edges(edges[places]))
    )
    np.testing.assert_equal(asdict(everything().links.of_edges(edges)), asdict(everything().of_edges(edges).links))


def test_truth_values_name_edges_as_their_numbers_do():
    there = np.array([True, False, True, True, False])
    by_number = everything().of_edges(np.flatnonzero(there))
    np.testing.assert_equal(asdict(everything().of_edges(there)), asdict(by_number))


@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(N)).map(np.array))
def test_ues_in_another_order_and_back_are_the_same_problem(order):
    moved = everything().of_ues(order)
    np.testing.assert_array_equal(moved.members, everything().members[order])
    np.testing.assert_equal(asdict(moved.of_ues(np.argsort(order))), asdict(everything()))


def test_an_array_that_somebody_adds_to_the_links_is_cut_without_being_named():
    @dataclass(frozen=True, kw_only=True)
    class Shadowed(Links):
        shadowing_db: np.ndarray = field(metadata=PER_EDGE)

    links = Shadowed(**vars(everything().links), shadowing_db=np.arange(5.0))
    problem = replace(everything(), links=links)
    np.testing.assert_array_equal(problem.of_edges(np.array([4, 1])).links.shadowing_db, [4.0, 1.0])
    np.testing.assert_array_equal(problem.of_ues(np.arange(N)[::-1]).links.shadowing_db, np.arange(5.0))


def test_a_problem_has_links_and_takes_them_whole_or_array_by_array():
    problem = everything()
    own = {name: value for name, value in vars(problem).items() if name in RoundProblem.__dataclass_fields__}
    loose = {name: value for name, value in own.items() if name != "links"} | asdict(problem.links)
    np.testing.assert_equal(asdict(RoundProblem(**own)), asdict(RoundProblem(**loose)))
    assert problem.ue_gain is problem.links.ue_gain
    assert problem.ue_snr_hz is problem.links.ue_snr_hz


def test_ues_without_numbers_of_their_own_have_their_positions():
    problem = paper_network(K=2, ues=2)
    np.testing.assert_array_equal(problem.members, np.arange(4))
    np.testing.assert_array_equal(problem.of_edges(np.array([1])).members, [2, 3])


def test_a_plan_has_an_allocation_and_that_has_times():
    made = plan(everything(), certify=False)
    assert isinstance(made.allocation, Allocation)
    assert isinstance(made.allocation.times, Times)
    assert made.upload_s is made.allocation.times.upload_s
    assert made.scheduled is made.allocation.scheduled
    names = [entry.name for entry, _ in counted(made)]
    assert len(names) == len(set(names))


def test_a_plan_of_loose_arrays_is_the_plan_of_its_allocation():
    made = plan(everything(), certify=False)
    names = ("scheduled", "ue_bandwidth_hz", "edge_bandwidth_hz", "ue_power_w", "upload_s", "edge_upload_s")
    names += ("edge_phase_s", "latency_s", "round_latency_s", "objective", "lower_bound", "relative_gap", "planner")
    loose = Plan(**{name: getattr(made, name) for name in names})
    for name in names:
        np.testing.assert_array_equal(getattr(loose, name), getattr(made, name))
    again = finish_plan(everything(), loose.allocation, "again", lower_bound=-np.inf)
    assert again.objective == made.objective


@pytest.mark.parametrize("planner", ["joint", "fastest"])
def test_a_plan_of_the_edges_that_are_there_is_one_of_all_edges(planner):
    there = np.array([True, False, True, True, False])
    under = there[everything().edge_of_ue]
    problem = everything().of_ues(np.flatnonzero(under))
    present = without_absent(problem, there)
    made = plan(present, planner, certify=False)
    whole = over_all(made, there)
    assert present.names == ("edge 0", "edge 2", "edge 3")
    assert not whole.scheduled[~there].any()
    assert not whole.edge_bandwidth_hz[~there].any()
    assert np.isnan(whole.latency_s[~there]).all()
    assert whole.hears is None or whole.hears[~there].all()
    assert flat(whole)["edge_weight"].shape == (K,)
    for entry, value in counted(whole):
        if value is not None:
            kept = value[there] if entry.metadata["per"] == "edge" else value
            np.testing.assert_array_equal(kept, getattr(made, entry.name), err_msg=entry.name)
    assert without_absent(problem, None) is problem
    assert over_all(made, np.ones(3, dtype=bool)) is made
