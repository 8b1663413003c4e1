"""No plan is believed: what breaks the limits or promises too much is refused with planner, place and figures."""

from dataclasses import replace

import numpy as np
import pytest
from paper_network import paper_network

import hpfl
from hpfl.planning.allocation import finish_plan, finished
from hpfl.planning.bandwidth import allocate
from hpfl.planning.checking import PlanError, checked_answer
from hpfl.planning.planners import PLANNERS
from hpfl.rng import Stream


def made(problem, name="random"):
    return PLANNERS.get(name)(problem, {}, Stream(0, "planning"))[0]


def fault(problem, answer):
    with pytest.raises(PlanError) as caught:
        checked_answer(answer, problem, "round 3: planner mine")
    said = str(caught.value)
    assert said.startswith("round 3: planner mine ")
    assert said.isprintable()
    return said.removeprefix("round 3: planner mine ")


def with_entry(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def problem_with_a_late_edge(**changes):
    staleness = np.zeros(20, dtype=np.int64)
    staleness[7] = 20
    return paper_network(staleness=staleness, max_edges=5, **changes)


PROBLEM = problem_with_a_late_edge()
PLAN = made(PROBLEM)
IN, OUT = int(np.argmax(PLAN.scheduled)), int(np.argmin(PLAN.scheduled))
LINK = 10 * IN


def test_a_plan_that_hands_out_forty_megahertz_of_five_is_refused():
    wide = replace(
        PLAN, ue_bandwidth_hz=PLAN.ue_bandwidth_hz * 40e6 / 5e6, edge_bandwidth_hz=8 * PLAN.edge_bandwidth_hz
    )
    assert fault(PROBLEM, (wide, {})) == "hands out 40 MHz of 5 MHz"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answers with None; a pair (Plan, memory) was wanted"),
        (PLAN, "answers with a value of type Plan; a pair (Plan, memory) was wanted"),
        ((None, {}), "answers with None in place of a Plan"),
        ((PLAN, None), "hands on None as its memory; a dict was wanted"),
    ],
)
def test_an_answer_that_is_no_plan_is_refused(answer, said):
    assert fault(PROBLEM, answer) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scheduled": [True] * 20}, "gives scheduled as a value of type list; an array of 20 truth values was wanted"),
        (
            {"scheduled": PLAN.scheduled.astype(np.int64)},
            "gives scheduled with the shape (20,) of int64; 20 truth values were wanted",
        ),
        (
            {"ue_power_w": PLAN.ue_power_w[:7]},
            "gives ue_power_w with the shape (7,) of float64; 200 numbers were wanted",
        ),
        ({"latency_s": PLAN.latency_s[:, None]}, "gives latency_s with the shape (20, 1) of float64; 20 numbers were"),
        ({"hears": np.ones(3, dtype=bool)}, "gives hears with the shape (3,) of bool; 20 truth values were wanted"),
        ({"round_latency_s": None}, "has None as its round_latency_s; a number was wanted"),
        ({"broadcast": "everyone"}, "has the broadcast 'everyone'; wanted"),
        ({"step_scale": -1.0}, "has a step_scale of -1; it must be finite and not negative"),
        ({"step_scale": float("inf")}, "has a step_scale of inf; it must be finite and not negative"),
        ({"scheduled": np.zeros(20, dtype=bool)}, "schedules none of 20 edges; at least one has to upload"),
        (
            {"scheduled": with_entry(PLAN.scheduled, 7, False)},
            "leaves out edge 7, whose staleness of 20 rounds has reached the bound of 20",
        ),
        (
            {"scheduled": np.ones(20, dtype=bool)},
            "schedules 20 edges of at most 5, and does not say so (exceeds_cap)",
        ),
        (
            {"ue_bandwidth_hz": with_entry(PLAN.ue_bandwidth_hz, 3, -5.0)},
            "has ue_bandwidth_hz[3] = -5; a bandwidth in Hz must be finite and not negative",
        ),
        ({"edge_bandwidth_hz": with_entry(PLAN.edge_bandwidth_hz, 3, np.nan)}, "has edge_bandwidth_hz[3] = nan; "),
        (
            {"edge_bandwidth_hz": 0.5 * with_entry(PLAN.edge_bandwidth_hz, OUT, 2000.0)},
            f"gives 0.001 MHz to a link of edge {OUT}, which it leaves out",
        ),
        (
            {"ue_power_w": with_entry(PLAN.ue_power_w, LINK, 1.0)},
            f"has ue_power_w[{LINK}] = 1; the UE may send with 0 to 0.01 W",
        ),
        ({"ue_power_w": with_entry(PLAN.ue_power_w, LINK, np.nan)}, f"has ue_power_w[{LINK}] = nan; "),
        ({"ue_bandwidth_hz": with_entry(PLAN.ue_bandwidth_hz, LINK, 0.0)}, f"promises upload_s[{LINK}] = "),
        ({"upload_s": 0.5 * PLAN.upload_s}, f"promises upload_s[{LINK}] = "),
        ({"edge_upload_s": 0.0 * PLAN.edge_upload_s}, f"promises edge_upload_s[{IN}] = 0; its links give "),
        ({"edge_phase_s": PLAN.edge_phase_s * 1.00001}, f"promises edge_phase_s[{IN}] = "),
        ({"latency_s": 2.0 * PLAN.latency_s}, f"promises latency_s[{IN}] = "),
        ({"latency_s": with_entry(PLAN.latency_s, IN, np.nan)}, f"promises latency_s[{IN}] = nan; its links give "),
        ({"round_latency_s": 0.0}, "promises a round of 0 s; its edges need "),
        ({"round_latency_s": float("nan")}, "promises a round of nan s; its edges need "),
        ({"objective": -1e9}, "says that its objective is -1e+09; that of its set and latency is "),
        ({"objective": float("nan")}, "says that its objective is nan; "),
        ({"lower_bound": 1e9}, "says that no plan is below 1e+09; its own objective is "),
        ({"lower_bound": float("nan")}, "says that no plan is below nan; its own objective is "),
        ({"relative_gap": float("nan")}, "has a relative_gap of nan; it must be zero or positive"),
    ],
)
def test_a_plan_that_breaks_a_limit_or_a_promise_is_refused(changes, said):
    assert fault(PROBLEM, (replace(PLAN, **changes), {})).startswith(said)


def test_a_ue_beyond_its_energy_budget_is_refused():
    free = made(PROBLEM)
    spent_j = float(free.ue_power_w[LINK] * free.upload_s[LINK])
    budgeted = replace(PROBLEM, ue_energy_j=with_entry(np.full(200, np.inf), LINK, 0.5 * spent_j))
    assert fault(budgeted, (free, {})) == f"lets UE {LINK} spend {spent_j:g} J of {0.5 * spent_j:g} J"


@pytest.mark.parametrize("name", PLANNERS.names())
def test_plans_of_the_shipped_planners_pass(name):
    for problem in (PROBLEM, problem_with_a_late_edge(ue_energy_j=np.full(200, 2e-3)), paper_network(2, rho=1.0)):
        answer = PLANNERS.get(name)(problem, {}, Stream(0, "planning"))
        assert checked_answer(answer, problem, "planner") == answer


def test_a_planner_may_lower_powers_and_leave_bandwidth_to_links_that_are_done():
    ue_bits = with_entry(PROBLEM.ue_bits, LINK, 0.0)
    problem = replace(PROBLEM, ue_bits=ue_bits)
    plan = made(problem)
    hz = 0.9 * with_entry(plan.ue_bandwidth_hz, LINK, 1e3)
    power_w = 0.5 * plan.ue_power_w
    member = plan.scheduled[problem.edge_of_ue]
    rate_bps = hz * np.log2(1.0 + power_w * problem.ue_gain / (np.maximum(hz, 1e-9) * problem.ue_noise_w_per_hz))
    upload_s = np.where(member & (ue_bits > 0), ue_bits / np.maximum(rate_bps, 1e-9), 0.0)
    times = finished(
        problem.links,
        plan.scheduled,
        member,
        upload_s=upload_s,
        ue_power_w=power_w,
        edge_bandwidth_hz=plan.edge_bandwidth_hz,
    )
    own = replace(plan, ue_bandwidth_hz=hz, times=times)
    own = replace(own, objective=problem.objective(own.scheduled, own.round_latency_s))
    checked_answer((own, {}), problem, "planner mine")


def test_a_planner_without_a_bound_may_say_so():
    unbounded = finish_plan(PROBLEM, allocate(PROBLEM, PLAN.scheduled), "mine", lower_bound=float("-inf"))
    checked_answer((unbounded, {}), PROBLEM, "planner mine")


def test_a_plan_beyond_the_cap_passes_if_it_says_so():
    plan = made(PROBLEM, "full")
    assert plan.exceeds_cap
    checked_answer((plan, {}), PROBLEM, "planner full")
    assert "does not say so" in fault(PROBLEM, (replace(plan, exceeds_cap=False), {}))


def test_one_rounding_beyond_the_budget_is_none():
    scale = 5e6 * (1.0 + 1e-12) / (PLAN.ue_bandwidth_hz.sum() + PLAN.edge_bandwidth_hz.sum())
    ue_hz, edge_hz = scale * PLAN.ue_bandwidth_hz, scale * PLAN.edge_bandwidth_hz
    checked_answer((replace(PLAN, ue_bandwidth_hz=ue_hz, edge_bandwidth_hz=edge_hz), {}), PROBLEM, "planner mine")


def greedy(problem, memory, stream):
    plan, memory = PLANNERS.get("random")(problem, memory, stream)
    return replace(
        plan, ue_bandwidth_hz=8.0 * plan.ue_bandwidth_hz, edge_bandwidth_hz=8.0 * plan.edge_bandwidth_hz
    ), memory


def test_planning_one_round_with_a_planner_of_ones_own_checks_its_plan():
    with pytest.raises(PlanError, match=r"^planner greedy hands out 40 MHz of 5 MHz$"):
        hpfl.plan(paper_network(), greedy)


def test_the_sentence_names_a_planner_as_it_is_registered(monkeypatch):
    monkeypatch.setitem(PLANNERS._parts, "mine", PLANNERS._made("mine", greedy, "elsewhere", None, {}))
    with pytest.raises(PlanError, match=r"^planner mine hands out"):
        hpfl.plan(paper_network(), "mine")
