import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning import plan as planned
from hpfl.planning.documents import plan_to_json, problem_from_json
from hpfl.planning.problem import Plan, RoundProblem
from hpfl.planning.rules import ProblemError


def example():
    """Two edges, the first with two UEs, the second with one; the optional keys on the first edge only."""
    return {
        "bandwidth_hz": 5e6,
        "noise_w_per_hz": 3.98e-21,
        "model_bits": 2544320,
        "rho": 0.8,
        "phi": 9.33,
        "max_edges": 15,
        "staleness_bound": 20,
        "edges": [
            {
                "id": "es-0",
                "gain": 1e-9,
                "power_w": 0.01,
                "bits": 1000,
                "noise_w_per_hz": 5e-21,
                "importance": 1.2,
                "staleness": 3,
                "ues": [
                    {"id": "ue-0", "gain": 1e-7, "power_w": 0.01, "compute_s": 0.02, "bits": 0},
                    {"id": "ue-1", "gain": 2e-7, "power_w": 0.02, "compute_s": 0.0, "noise_w_per_hz": 6e-21},
                ],
            },
            {"gain": 2e-9, "power_w": 0.03, "importance": 0, "ues": [{"gain": 3e-7, "power_w": 0.04, "compute_s": 1}]},
        ],
    }


def changed(path, value):
    """The example with one place changed; `...` deletes it."""
    document = copy.deepcopy(example())
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


def complaint(document):
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    with pytest.raises(ProblemError) as caught:
        problem_from_json(text)
    message = str(caught.value)
    assert message.isprintable(), "one line, nothing a terminal would act on"
    assert len(message) < 300
    return message


def test_the_arrays_hold_what_the_file_says():
    problem = problem_from_json(json.dumps(example()))
    assert (problem.bandwidth_hz, problem.rho, problem.phi) == (5e6, 0.8, 9.33)
    assert (problem.max_edges, problem.staleness_bound) == (15, 20)
    assert problem.edge_gain.tolist() == [1e-9, 2e-9]
    assert problem.edge_power_w.tolist() == [0.01, 0.03]
    assert problem.importance.tolist() == [1.2, 0.0]
    assert problem.edge_of_ue.tolist() == [0, 0, 1]
    assert problem.ue_gain.tolist() == [1e-7, 2e-7, 3e-7]
    assert problem.ue_power_w.tolist() == [0.01, 0.02, 0.04]
    assert problem.compute_s.tolist() == [0.02, 0.0, 1.0]


def test_bits_noise_staleness_and_ids_have_defaults():
    problem = problem_from_json(json.dumps(example()))
    assert problem.edge_bits.tolist() == [1000.0, 2544320.0]
    assert problem.ue_bits.tolist() == [0.0, 2544320.0, 2544320.0]
    assert problem.edge_noise_w_per_hz.tolist() == [5e-21, 3.98e-21]
    assert problem.ue_noise_w_per_hz.tolist() == [3.98e-21, 6e-21, 3.98e-21]
    assert problem.staleness.tolist() == [3, 0]
    assert problem.staleness.dtype == np.int64
    assert problem.edge_ids == problem.names == ("es-0", "1")
    assert replace(problem, edge_ids=None).names == ("0", "1")
    assert problem.ue_ids == ("ue-0", "ue-1", "0")


def test_a_problem_reads_itself_from_text_bytes_and_objects():
    for source in (json.dumps(example()), json.dumps(example()).encode(), example()):
        problem = RoundProblem.from_json(source)
        assert (problem.num_edges, problem.num_ues, problem.phi) == (2, 3, 9.33)
        assert problem.ue_gain.tolist() == [1e-7, 2e-7, 3e-7]
    with pytest.raises(ProblemError, match="bandwidth_hz"):
        RoundProblem.from_json("{}")


def test_energy_budgets_are_infinite_where_none_is_given():
    assert problem_from_json(json.dumps(example())).ue_energy_j is None
    budgeted = problem_from_json(json.dumps(changed(["edges", 0, "ues", 1, "energy_j"], 0.5)))
    assert budgeted.ue_energy_j.tolist() == [math.inf, 0.5, math.inf]


def test_sketches_become_one_row_per_edge():
    document = example()
    document["edges"][0]["sketch"], document["edges"][1]["sketch"] = [1, -2.5], [0, 3]
    assert problem_from_json(document).sketches.tolist() == [[1.0, -2.5], [0.0, 3.0]]


def test_two_edges_may_use_the_same_ue_ids():
    problem = problem_from_json(changed(["edges", 1, "ues", 0, "id"], "ue-0"))
    assert problem.ue_ids == ("ue-0", "ue-1", "ue-0")


def test_a_byte_order_mark_is_no_error():
    assert problem_from_json(b"\xef\xbb\xbf" + json.dumps(example()).encode()).bandwidth_hz == 5e6


FAULTS = [
    (["edges", 0, "ues", 1, "gain"], -0.2, "edges[0].ues[1].gain is -0.2; a power gain must be positive"),
    (["edges", 1, "gain"], 0, "edges[1].gain is 0; a power gain must be positive"),
    (["edges", 1, "gain"], math.nan, "edges[1].gain is NaN; a power gain must be positive"),
    (["edges", 1, "gain"], math.inf, "edges[1].gain is Infinity; a power gain must be positive"),
    (["edges", 1, "ues", 0, "gain"], "1e-7", 'edges[1].ues[0].gain is "1e-7"; a power gain must be a number'),
    (["edges", 1, "ues", 0, "gain"], True, "edges[1].ues[0].gain is true; a power gain must be a number"),
    (["edges", 1, "ues", 0, "bits"], None, "edges[1].ues[0].bits is null; "),
    (["edges", 1, "ues", 0, "bits"], -1, "edges[1].ues[0].bits is -1; "),
    (["edges", 1, "ues", 0, "compute_s"], -1e-9, "edges[1].ues[0].compute_s is -1e-09; "),
    (["edges", 1, "ues", 0, "compute_s"], [1], "edges[1].ues[0].compute_s is [1]; "),
    (["edges", 1, "ues", 0, "energy_j"], 0, "edges[1].ues[0].energy_j is 0; "),
    (["edges", 0, "power_w"], 0.0, "edges[0].power_w is 0.0; "),
    (["edges", 0, "noise_w_per_hz"], 0.0, "edges[0].noise_w_per_hz is 0.0; "),
    (["edges", 0, "importance"], -1, "edges[0].importance is -1; "),
    (["edges", 0, "staleness"], -1, "edges[0].staleness is -1; "),
    (["edges", 0, "staleness"], 2.5, "edges[0].staleness is 2.5; a staleness in rounds must be a whole number"),
    (["edges", 0, "id"], 7, "edges[0].id is 7; an id must be a string"),
    (["edges", 0, "id"], "", 'edges[0].id is ""; an id must be a string'),
    (["edges", 0, "id"], None, "edges[0].id is null; an id must be a string"),
    (["edges", 0, "id"], "1", 'edges[1].id is "1", as is that of edges[0]; ids must differ'),
    (["edges", 0, "ues", 1, "id"], "ue-0", 'edges[0].ues[1].id is "ue-0", as is that of edges[0].ues[0]'),
    (["edges", 0, "sketch"], [1.0], "edges[1].sketch is missing; either every edge has a sketch or none"),
    (["edges", 0, "gian"], 1.0, "edges[0].gian is unknown; edges[0] may have "),
    (["edges", 0, "ues", 0, "gian"], 1.0, "edges[0].ues[0].gian is unknown; "),
    (["edges", 0, "ues", 0, "x\x1b[2J\n"], 1.0, 'edges[0].ues[0]."x\\u001b[2J\\n" is unknown; '),
    (["bandwith_hz"], 1.0, "bandwith_hz is unknown; the document may have "),
    (["bandwidth_hz"], ..., "bandwidth_hz is missing; the document needs "),
    (["edges"], ..., "edges is missing; "),
    (["edges", 1, "gain"], ..., "edges[1].gain is missing; edges[1] needs gain, importance, power_w, ues"),
    (["edges", 1, "ues"], ..., "edges[1].ues is missing; "),
    (["edges", 0, "ues", 1, "compute_s"], ..., "edges[0].ues[1].compute_s is missing; "),
    (["edges"], [], "edges is empty; "),
    (["edges"], {}, "edges is {}; a list of objects was wanted"),
    (["edges", 1], 3, "edges[1] is 3; an object was wanted"),
    (["edges", 1, "ues"], [], "edges[1].ues is empty; "),
    (["edges", 0, "ues", 1], None, "edges[0].ues[1] is null; an object was wanted"),
    (["rho"], 1.4, "rho is 1.4; the weight of importance must lie between 0 and 1"),
    (["rho"], -0.1, "rho is -0.1; "),
    (["phi"], -1, "phi is -1; "),
    (["max_edges"], 0, "max_edges is 0; "),
    (["max_edges"], 1.5, "max_edges is 1.5; "),
    (["staleness_bound"], -1, "staleness_bound is -1; "),
    (["bandwidth_hz"], 0, "bandwidth_hz is 0; "),
    (["bandwidth_hz"], 10**400, "bandwidth_hz is 1000"),
    (["edges", 0, "ues", 1, "gain"], 1e-200, "edges[0].ues[1].gain is 1e-200; a power gain must be positive (between"),
    (["noise_w_per_hz"], 0, "noise_w_per_hz is 0; "),
    (["model_bits"], 0, "model_bits is 0; "),
]


@pytest.mark.parametrize(("path", "value", "wanted"), FAULTS, ids=[wanted.split(";")[0] for *_, wanted in FAULTS])
def test_a_fault_is_named_with_its_place(path, value, wanted):
    assert complaint(changed(path, value)).startswith(wanted)


def test_sketches_of_different_length_are_refused():
    document = example()
    document["edges"][0]["sketch"], document["edges"][1]["sketch"] = [1, 2], [3]
    assert complaint(document) == "edges[1].sketch has 1 entries; edges[0].sketch has 2"


def test_a_sketch_with_a_word_in_it_is_refused():
    document = example()
    document["edges"][0]["sketch"], document["edges"][1]["sketch"] = [1, 2], [3, "x"]
    assert complaint(document).startswith('edges[1].sketch[1] is "x"; ')


def test_a_number_too_large_for_a_float_is_refused():
    text = json.dumps(example()).replace("1e-09", "1e999")
    assert complaint(text).startswith("edges[0].gain is Infinity; ")


def test_a_number_of_ten_thousand_digits_is_refused():
    complaint(json.dumps(example()).replace('"rho": 0.8', '"rho": ' + "9" * 10_000))


def test_a_key_given_twice_is_refused_at_its_place():
    text = json.dumps(example()).replace('"compute_s": 1', '"compute_s": 1, "gain": 1')
    assert complaint(text) == "edges[1].ues[0].gain is given twice"
    assert complaint('{"rho": 1, "rho": 0}') == "rho is given twice"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "line 1, column 1 is not JSON"),
        ('{"rho": 0.8,\n "phi": }', "line 2, column 9 is not JSON"),
        ("[1, 2]", "the document is [1, 2]; a JSON object was wanted"),
        ("3", "the document is 3"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        ("[" * 200_000, "the document is nested far too deeply"),
        ('{"edges": ' + '{"a":' * 200_000, "the document is nested far too deeply"),
    ],
)
def test_what_is_not_a_json_object_is_refused(text, wanted):
    assert complaint(text).startswith(wanted)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
places = (
    [[key] for key in example()]
    + [["edges", 0, key] for key in example()["edges"][0]]
    + [["edges", 0, "ues", 0, key] for key in example()["edges"][0]["ues"][0]]
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(places), json_values)
def test_whatever_stands_in_a_place_is_read_or_refused_in_one_line(path, value):
    text = json.dumps(changed(path, value))
    try:
        problem = problem_from_json(text)
    except ProblemError:
        complaint(text)
        return
    for array in (problem.edge_gain, problem.edge_bits, problem.ue_bits, problem.importance, problem.compute_s):
        assert np.isfinite(array).all()


def test_the_spectrum_is_fixed_unless_a_document_says_phased():
    assert problem_from_json(example()).spectrum == "fixed"
    assert problem_from_json({**example(), "spectrum": "phased"}).spectrum == "phased"
    assert complaint({**example(), "spectrum": "shared"}) == 'spectrum is "shared"; it must be "fixed" or "phased"'


def test_the_answer_of_a_phased_problem_says_when_edges_switch_and_what_its_bounds_cover():
    problem = problem_from_json({**example(), "spectrum": "phased"})
    made = planned(problem, "full")
    answer = plan_to_json(problem, made, 0.0)
    assert [edge["switch_s"] for edge in answer["edges"]] == made.switch_s.tolist()
    assert answer["spectrum"] == "phased"
    assert answer["bound_covers"] == "one switch"
    assert 0 < answer["any_time_least_s"] <= answer["round_latency_s"]
    assert sum(answer["phases_s"].values()) == pytest.approx(answer["round_latency_s"])


def test_the_answer_has_exactly_the_documented_shape():
    nan = math.nan
    plan = Plan(
        planner="joint",
        scheduled=np.array([True, False]),
        ue_bandwidth_hz=np.array([0.0, 2e6, 0.0]),
        edge_bandwidth_hz=np.array([3e6, 0.0]),
        ue_power_w=np.array([0.01, 0.02, 0.04]),
        upload_s=np.array([0.0, 1.5, nan]),
        edge_upload_s=np.array([0.5, nan]),
        edge_phase_s=np.array([1.5, nan]),
        latency_s=np.array([2.0, nan]),
        round_latency_s=2.0,
        objective=-1.25,
        lower_bound=-1.5,
        relative_gap=0.125,
    )
    answer = plan_to_json(problem_from_json(example()), plan, 0.004)
    assert json.loads(json.dumps(answer, allow_nan=False)) == {
        "planner": "joint",
        "scheduled": ["es-0"],
        "round_latency_s": 2.0,
        "objective": -1.25,
        "lower_bound": -1.5,
        "relative_gap": 0.125,
        "phases_s": {"compute": 0.0, "access": 1.5, "backhaul": 0.5, "broadcast": 0.0},
        "exceeds_cap": False,
        "planning_s": 0.004,
        "edges": [
            {
                "id": "es-0",
                "scheduled": True,
                "latency_s": 2.0,
                "edge_phase_s": 1.5,
                "bandwidth_hz": 3e6,
                "ues": [
                    {"id": "ue-0", "bandwidth_hz": 0.0, "power_w": 0.01, "upload_s": 0.0},
                    {"id": "ue-1", "bandwidth_hz": 2e6, "power_w": 0.02, "upload_s": 1.5},
                ],
            },
            {
                "id": "1",
                "scheduled": False,
                "latency_s": None,
                "edge_phase_s": None,
                "bandwidth_hz": 0.0,
                "ues": [{"id": "0", "bandwidth_hz": 0.0, "power_w": 0.04, "upload_s": None}],
            },
        ],
    }
