"""Whether a plan keeps to its problem and promises what its links give: the law of every planner, in a few passes."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.latency import upload_s as seconds_to_send
from hpfl.planning.allocation import finished
from hpfl.planning.problem import Memory, Plan, RoundProblem, Times
from hpfl.planning.spectrum import most_hz
from hpfl.records import counted

_ROUNDING = 1e-9  # of the budget, that sums of bandwidths may differ by
_SAME = 1e-6  # of a time, a power, an energy or an objective, that a promise may be off
_FIGURES = ("round_latency_s", "objective", "lower_bound", "relative_gap", "step_scale")


class PlanError(ValueError):
    """A planner's answer that is no plan, breaks the problem's limits, or promises what the links do not give."""


def checked_answer(answer: Any, problem: RoundProblem, who: str) -> tuple[Plan, Memory]:
    """The plan and the memory a planner answered with; `PlanError`, which begins with `who`, where they cannot be used.

    Costs O(N): what is checked is what the plan says, not whether a better one exists.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # whatever comes is judged, not computed with
        fault = next(_faults(answer, problem), None)
    if fault is not None:
        raise PlanError(f"{who} {fault}")
    plan, memory = answer
    return plan, memory


def _faults(answer: object, problem: RoundProblem) -> Iterator[str]:
    """Everything that is wrong, the most basic first; each is said only where those before it are right."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        yield f"answers with {_told(answer)}; a pair (Plan, memory) was wanted"
        return
    plan, memory = answer
    if not isinstance(plan, Plan):
        yield f"answers with {_told(plan)} in place of a Plan"
        return
    fault = _wrong_coding(problem, plan)
    if fault:
        yield fault
        return
    problem = problem.coded(plan.coding)
    if not isinstance(memory, Mapping):
        yield f"hands on {_told(memory)} as its memory; a dict was wanted"
    yield from _kinds(problem, plan)
    member = plan.scheduled[problem.edge_of_ue]
    yield from _set(problem, plan)
    yield from _bandwidths(problem, plan, member)
    yield from _powers(problem, plan)
    yield from _times(problem, plan, member)
    yield from _objective(problem, plan)


def _wrong_coding(problem: RoundProblem, plan: Plan) -> str:
    """What is wrong with the entry of the menu; nothing, where it is there."""
    most = 1 if problem.codings is None else len(problem.codings)
    for name, entry in (
        ("coding", plan.coding),
        ("step_coding", plan.coding if plan.step_coding is None else plan.step_coding),
    ):
        if not isinstance(entry, int) or not 0 <= entry < most:
            return f"names the {name} {entry!r}; wanted a whole number from 0 to {most - 1}"
    return ""


def _told(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _kinds(problem: RoundProblem, plan: Plan) -> Iterator[str]:
    """Arrays of the right lengths, numbers where numbers belong, known words."""
    count = {"edge": problem.num_edges, "ue": problem.num_ues}
    for entry, value in counted(plan):
        if value is not None or entry.default is not None:
            of_truth = isinstance(entry.metadata.get("absent"), bool)
            kinds, what = ("b", "truth values") if of_truth else ("fiu", "numbers")
            wanted = count[entry.metadata["per"]]
            if not _fits(value, wanted, kinds):
                yield _misshapen(entry.name, value, wanted, what)
    for name in _FIGURES:
        value = getattr(plan, name)
        if not isinstance(value, Real):
            yield f"has {_told(value)} as its {name}; a number was wanted"
    if not (math.isfinite(plan.step_scale) and plan.step_scale >= 0):
        yield f"has a step_scale of {plan.step_scale:g}; it must be finite and not negative"
    if plan.broadcast not in (None, "scheduled", "all"):
        yield f'has the broadcast {plan.broadcast!r}; wanted "scheduled", "all" or None'


def _fits(array: object, count: int, kinds: str) -> bool:
    return isinstance(array, np.ndarray) and array.shape == (count,) and array.dtype.kind in kinds


def _misshapen(name: str, array: object, count: int, what: str) -> str:
    if not isinstance(array, np.ndarray):
        return f"gives {name} as {_told(array)}; an array of {count} {what} was wanted"
    return f"gives {name} with the shape {array.shape} of {array.dtype}; {count} {what} were wanted"


def _set(problem: RoundProblem, plan: Plan) -> Iterator[str]:
    count = int(plan.scheduled.sum())
    if not count:
        yield f"schedules none of {problem.num_edges} edges; at least one has to upload"
    late = problem.must & ~plan.scheduled
    if late.any():
        edge = int(np.argmax(late))
        yield (
            f"leaves out edge {problem.names[edge]}, whose staleness of {problem.staleness[edge]} rounds has reached "
            f"the bound of {problem.staleness_bound}"
        )
    if count > problem.most_edges and not plan.exceeds_cap:
        yield f"schedules {count} edges of at most {problem.most_edges}, and does not say so (exceeds_cap)"


def _bandwidths(problem: RoundProblem, plan: Plan, member: BoolArray) -> Iterator[str]:
    for name in ("ue_bandwidth_hz", "edge_bandwidth_hz"):
        hz: FloatArray = getattr(plan, name)
        if hz.size and not (hz.min() >= 0 and hz.max() < np.inf):
            index = int(np.argmin((hz >= 0) & (hz < np.inf)))
            yield f"has {name}[{index}] = {hz[index]:g}; a bandwidth in Hz must be finite and not negative"
    if plan.switch_s is not None and problem.spectrum == "fixed":
        yield 'gives moments at which the band is shared anew (switch_s); the spectrum of the problem is "fixed"'
    total_hz = most_hz(problem.links, plan)
    if not total_hz <= problem.bandwidth_hz * (1.0 + _ROUNDING):
        yield f"hands out {_mhz(total_hz)} of {_mhz(problem.bandwidth_hz)}"
    for hz, edges, called in (
        (plan.ue_bandwidth_hz, problem.edge_of_ue, member),
        (plan.edge_bandwidth_hz, np.arange(problem.num_edges), plan.scheduled),
    ):
        idle = (hz > 0) & ~called
        if idle.any():
            link = int(np.argmax(idle))
            yield f"gives {_mhz(hz[link])} to a link of edge {problem.names[edges[link]]}, which it leaves out"


def _mhz(hz: float) -> str:
    return f"{hz / 1e6:.9g} MHz"


def _powers(problem: RoundProblem, plan: Plan) -> Iterator[str]:
    power_w, most_w = plan.ue_power_w, problem.ue_power_w
    allowed = (power_w >= 0) & (power_w <= most_w * (1.0 + _SAME))
    if not allowed.all():
        ue = int(np.argmin(allowed))
        yield f"has ue_power_w[{ue}] = {power_w[ue]:g}; the UE may send with 0 to {most_w[ue]:g} W"


def _times(problem: RoundProblem, plan: Plan, member: BoolArray) -> Iterator[str]:
    """What the links give for the plan's bandwidths and powers, against what it promises."""
    snr_hz = plan.ue_power_w * (problem.ue_gain / problem.ue_noise_w_per_hz)
    upload_s = seconds_to_send(np.where(member, problem.ue_bits, 0.0), plan.ue_bandwidth_hz, snr_hz)
    given = finished(
        problem.links,
        plan.scheduled,
        member,
        upload_s=upload_s,
        ue_power_w=plan.ue_power_w,
        edge_bandwidth_hz=plan.edge_bandwidth_hz,
        switch=plan.switch_s,
    )
    if problem.ue_energy_j is not None:
        spent_j = np.where(member, plan.ue_power_w * given.upload_s, 0.0)
        over = spent_j > problem.ue_energy_j * (1.0 + _SAME)
        if over.any():
            ue = int(np.argmax(over))
            yield f"lets UE {ue} spend {spent_j[ue]:g} J of {problem.ue_energy_j[ue]:g} J"
    yield from _kept(plan, given, "upload_s", member)
    for name in ("edge_upload_s", "edge_phase_s", "latency_s"):
        yield from _kept(plan, given, name, plan.scheduled)
    if not _near(plan.round_latency_s, given.round_latency_s):
        yield f"promises a round of {plan.round_latency_s:g} s; its edges need {given.round_latency_s:g} s"


def _kept(plan: Plan, given: Times, name: str, where: BoolArray) -> Iterator[str]:
    """Whether the seconds that count are those the links give, and finite."""
    promised_s, given_s = getattr(plan, name), getattr(given, name)
    wrong = where & ~(np.abs(promised_s - given_s) <= _SAME * given_s)
    wrong |= where & np.isinf(given_s)
    if wrong.any():
        index = int(np.argmax(wrong))
        yield f"promises {name}[{index}] = {promised_s[index]:g}; its links give {given_s[index]:g} s"


def _near(promised: float, given: float) -> bool:
    return abs(promised - given) <= _SAME * abs(given)


def _objective(problem: RoundProblem, plan: Plan) -> Iterator[str]:
    """P2's objective and a bound below it, where the importances of the edges can be added up."""
    objective = problem.objective(plan.scheduled, plan.round_latency_s)
    if not math.isfinite(objective) or not math.isfinite(problem.values.sum()):
        return
    allowance = _SAME * problem.scale(plan.scheduled, plan.round_latency_s)
    if not abs(plan.objective - objective) <= allowance:
        yield f"says that its objective is {plan.objective:g}; that of its set and latency is {objective:g}"
    if not plan.lower_bound <= plan.objective + allowance:  # minus infinity where no bound is known
        yield f"says that no plan is below {plan.lower_bound:g}; its own objective is {plan.objective:g}"
    if not plan.relative_gap >= -_SAME:
        yield f"has a relative_gap of {plan.relative_gap:g}; it must be zero or positive"
