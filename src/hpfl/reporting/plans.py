"""A plan at the terminal: a table of the edges and a picture of who gets which part of the spectrum."""

import math

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hpfl.arrays import FloatArray, IntArray
from hpfl.planning.problem import Plan, RoundProblem
from hpfl.planning.spectrum import most_hz

MOST_ROWS = 40  # more edges than this are summed up: nobody reads a table of a thousand
BAR_WIDTH = 40
_PREFIXES = (
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
)  # "u": a terminal may know no Greek


def print_plan(problem: RoundProblem, plan: Plan, *, planning_s: float, console: Console | None = None) -> None:
    """Print headline, table and spectrum; `planning_s` is the time planning took, in seconds."""
    console = Console() if console is None else console
    ascii_only = console.options.ascii_only
    console.print(headline(problem, plan, planning_s))
    console.print()
    console.print(edge_table(problem, plan))
    console.print(spectrum(problem, plan, ascii_only=ascii_only))


def headline(problem: RoundProblem, plan: Plan, planning_s: float) -> Text:
    """What the plan comes to, line by line: set and latency, phases, certificate, spectrum in use."""
    used_hz = most_hz(problem.coded(plan.coding).links, plan)
    chosen, K = int(plan.scheduled.sum()), plan.scheduled.size
    over = f" (more than the {problem.max_edges} wanted)" if plan.exceeds_cap else ""
    return Text(
        f"{plan.planner}: {chosen} of {K} edges upload{over}; the round lasts {quantity(plan.round_latency_s, 's')}\n"
        f"{phases(plan)}\n"
        f"{_coding(problem, plan)}"
        f"P2 objective {plan.objective:.6g}, no plan {_class(plan)}below {plan.lower_bound:.6g} "
        f"(gap {plan.relative_gap:.2%})\n"
        f"{_any_time(plan)}"
        f"{quantity(used_hz, 'Hz')} of {quantity(problem.bandwidth_hz, 'Hz')} in use, "
        f"planned in {quantity(planning_s, 's')}"
    )


def phases(plan: Plan) -> str:
    """Seconds by phase on the edge that finishes last: "compute 12.0 ms, access 1.20 s, backhaul 0.30 s"."""
    return ", ".join(f"{name} {quantity(s, 's')}" for name, s in plan.phases_s.items() if s or name != "broadcast")


def _coding(problem: RoundProblem, plan: Plan) -> str:
    """Which entry of a menu uploads are coded by, where there is one."""
    menu = problem.codings
    if menu is None:
        return ""
    ue_bits, edge_bits = menu.ue_bits[plan.coding], menu.edge_bits[plan.coding]
    of = f"coding {plan.coding} of 0 to {len(menu) - 1}"
    return f"{of}: {quantity(ue_bits, 'bit')} from a UE, {quantity(edge_bits, 'bit')} from an edge\n"


def _class(plan: Plan) -> str:
    return "with one switch " if plan.bound_covers == "one switch" else ""


def _any_time(plan: Plan) -> str:
    """How many moments there are at which the band is shared anew, and how far from the best of all that can be."""
    if plan.switch_s is None or not plan.any_time_least_s:
        return ""
    moments = np.unique(plan.switch_s[plan.scheduled]).size
    most = plan.round_latency_s / plan.any_time_least_s - 1.0
    when = "one moment" if moments == 1 else f"{moments} moments"
    return f"edges switch at {when}; with any bandwidth over time they would gain {most:.1%} at most\n"


def edge_table(problem: RoundProblem, plan: Plan) -> Table:
    """One row per edge: importance, staleness, times and bandwidth; the scheduled ones marked."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("edge", max_width=16, overflow="ellipsis", no_wrap=True)
    for name in ("uploads", "importance", "stale", "edge phase", "latency", "UEs", "backhaul"):
        table.add_column(name, justify="right", no_wrap=True)
    ue_hz = ue_bandwidth_per_edge(problem, plan)
    rows = rows_to_show(plan, ue_hz)
    for k in rows.tolist():
        table.add_row(*_cells(problem, plan, k, ue_hz[k]), style="" if plan.scheduled[k] else "dim")
    if rows.size < plan.scheduled.size:
        table.caption = f"the {rows.size} edges with the most bandwidth; {plan.scheduled.size - rows.size} more"
        table.caption_justify = "left"
    return table


def spectrum(problem: RoundProblem, plan: Plan, *, ascii_only: bool = False) -> RenderableType:
    """One bar per scheduled edge, in proportion to its Hz: its UEs' part and its backhaul's."""
    ue_mark, backhaul_mark = ("#", "=") if ascii_only else ("█", "▒")
    ue_hz = ue_bandwidth_per_edge(problem, plan)
    total_hz = ue_hz + plan.edge_bandwidth_hz
    widest_hz = float(total_hz.max()) or 1.0
    grid = Table.grid(padding=(0, 1))
    grid.add_column(max_width=16, overflow="ellipsis", no_wrap=True)
    for _ in range(3):
        grid.add_column(no_wrap=True, justify="right")
    grid.columns[1].justify = "left"
    rows = rows_to_show(plan, ue_hz)
    for k in rows[plan.scheduled[rows]].tolist():
        bar = _bar((float(ue_hz[k]), float(plan.edge_bandwidth_hz[k])), widest_hz, (ue_mark, backhaul_mark))
        share = total_hz[k] / problem.bandwidth_hz
        grid.add_row(Text(edge_name(problem, k)), bar, quantity(total_hz[k], "Hz"), f"{share:.1%}")
    legend = Text.assemble(
        (ue_mark, "cyan"), " its UEs   ", (backhaul_mark, "yellow"), " edge to cloud   ! at the staleness bound"
    )
    return Group(Text(""), grid, legend)


def ue_bandwidth_per_edge(problem: RoundProblem, plan: Plan) -> FloatArray:
    """Bandwidth of each edge's UEs together, in Hz."""
    weights = plan.ue_bandwidth_hz
    return np.bincount(problem.edge_of_ue, weights=weights, minlength=plan.scheduled.size).astype(np.float64)


def rows_to_show(plan: Plan, ue_hz: FloatArray) -> IntArray:
    """All edges in order, or the `MOST_ROWS` with the most bandwidth where there are more."""
    hz = ue_hz + plan.edge_bandwidth_hz
    return np.sort(np.argsort(-hz, kind="stable")[:MOST_ROWS]).astype(np.int64)


def edge_name(problem: RoundProblem, k: int) -> str:
    """An edge's id as it may be printed: nothing a terminal would act on."""
    name = problem.names[k]
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def quantity(value: float, unit: str) -> str:
    """A value with three digits and a prefix: `quantity(23_100, "Hz")` is "23.1 kHz"."""
    if not math.isfinite(value):
        return "-"
    size, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= 0.9995 * s), (1.0, ""))
    if unit == "s" and size > 1.0:
        size, prefix = 1.0, ""
    return f"{_digits(value / size)} {prefix}{unit}"


def _digits(number: float) -> str:
    if number == 0 or 999.5 <= abs(number) < 99_999.5:
        return f"{number:.0f}"
    return f"{number:#.3g}".rstrip(".") if abs(number) < 999.5 else f"{number:.3g}"


def _cells(problem: RoundProblem, plan: Plan, k: int, ue_hz: float) -> tuple[str | Text, ...]:
    stale = f"{problem.staleness[k]}" + ("!" if problem.staleness[k] >= problem.staleness_bound else "")
    cells = (Text(edge_name(problem, k)), "yes" if plan.scheduled[k] else "no", f"{problem.importance[k]:.3g}", stale)
    if not plan.scheduled[k]:
        return (*cells, "-", "-", "-", "-")
    times = quantity(plan.edge_phase_s[k], "s"), quantity(plan.latency_s[k], "s")
    return (*cells, *times, quantity(ue_hz, "Hz"), quantity(plan.edge_bandwidth_hz[k], "Hz"))


def _bar(parts_hz: tuple[float, float], widest_hz: float, marks: tuple[str, str]) -> Text:
    """Two parts of one bar; the second starts where the first ends, so that rounding never lengthens the whole."""
    ends = [round(BAR_WIDTH * total / widest_hz) for total in (parts_hz[0], parts_hz[0] + parts_hz[1])]
    return Text.assemble((marks[0] * ends[0], "cyan"), (marks[1] * (ends[1] - ends[0]), "yellow"))
