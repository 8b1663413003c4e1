"""What a search comes to: a row per trial, a row per case with intervals, and whether one setting for all was fair."""

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hpfl.reporting.intervals import Interval, arithmetic, geometric, paired_ratio
from hpfl.sweeps.cells import SEED, cell_names
from hpfl.sweeps.set_against import baselines
from hpfl.sweeps.sweep_tables import UNKNOWN, ResultTable, TableCell, cell_text
from hpfl.sweeps.swept import plain_value
from hpfl.tuning.asking import importances
from hpfl.tuning.found_runs import FoundRun
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.trials import BEST, CONFIGURED, Search
from hpfl.tuning.tune_objective import TuneObjective
from hpfl.tuning.tune_settings import Range

RunsBySeed = Mapping[int, FoundRun]
END = 0.05
"""Share of a range that is called its end."""


def trial_rows(plan: TunePlan, searches: Sequence[Search]) -> list[dict[str, Any]]:
    """One flat row per trial, all with the same columns; nothing in it depends on who ran it, or how fast."""
    rows = []
    for search in searches:
        best = search.best
        for trial in search.trials:
            axes = {axis: plain_value(value) for axis, value in search.cell.values.items()}
            params = {key: plain_value(trial.params[key]) for key in plan.space}
            each = {f"value_{SEED}_{seed}": _counted(trial.runs.get(seed)) for seed in plan.seeds}
            rows.append({
                "case": search.cell.name, **axes, "trial": trial.number, **params, "state": trial.state,
                "value": trial.value, "arrived": trial.arrived, "best": trial is best, **each,
                "rounds": sum(run.rounds for run in trial.runs.values()),
                "time_s": sum(run.time_s for run in trial.runs.values()), "why": trial.why or None,
            })  # fmt: skip
    return rows


def _counted(run: FoundRun | None) -> float | None:
    return None if run is None or run.behind else run.counted


def search_tables(plan: TunePlan, searches: Sequence[Search]) -> list[ResultTable]:
    """The best of every case beside what was configured; and which keys matter."""
    told = [search for search in searches if search.best is not None]
    return [_best_table(plan, told), *([_importance_table(plan, told)] if len(plan.space) > 1 else [])] if told else []


def _best_table(plan: TunePlan, searches: Sequence[Search]) -> ResultTable:
    axes, keys = list(plan.based.study.axes), list(plan.space)
    unit = f" ({plan.objective.unit})" if plan.objective.unit else ""
    headings = [*_short(axes), *_short(keys), "trials", "given up", "seeds", f"as configured{unit}", f"tuned{unit}"]
    headings += ["tuned / configured"]
    against = baselines(plan.based.study, plan.cells) if plan.based.study.baseline else {}
    headings += ["configured / baseline", "tuned / baseline"] if against else []
    runs = {search.cell.name: {kind: judged(plan, search, kind) for kind in (CONFIGURED, BEST)} for search in searches}
    rows = []
    for search in searches:
        own, best = runs[search.cell.name], search.best
        assert best is not None
        given_up = sum(trial.state == "pruned" for trial in search.trials)
        row = [TableCell(words=_word(axis, search.cell.values[axis])) for axis in axes]
        row += [TableCell(words=_word(key, best.params[key])) for key in keys]
        row += [TableCell(words=str(len(search.trials))), TableCell(words=str(given_up))]
        row += [
            TableCell(words=str(len(own[BEST]))),
            *(_mean(plan.objective, own[kind]) for kind in (CONFIGURED, BEST)),
        ]
        row += [_ratio(own[CONFIGURED], own[BEST])]
        if against:
            other = runs.get(against.get(search.cell.name, ""))
            row += [_to_baseline(own, other, kind, search.cell.name in against.values()) for kind in (CONFIGURED, BEST)]
        rows.append(row)
    title = f"{plan.objective.title[:1].upper()}{plan.objective.title[1:]}"
    return ResultTable(title=title, headings=headings, naming=len(axes) + len(keys), rows=rows)


def _importance_table(plan: TunePlan, searches: Sequence[Search]) -> ResultTable:
    rows = []
    for search in searches:
        shares = importances(plan.space, search.known)
        row = [TableCell(words=search.cell.label)]
        row += [TableCell(words=f"{100 * shares[key]:.0f} %" if key in shares else UNKNOWN) for key in plan.space]
        rows.append(row)
    return ResultTable(title="Which keys matter", headings=["case", *_short(list(plan.space))], naming=1, rows=rows)


def judged(plan: TunePlan, search: Search, kind: str) -> RunsBySeed:
    """The runs by which a best or configured setting is told: on fresh seeds, else those that it was chosen by."""
    if plan.fresh:
        return search.fresh_runs.get(kind, {})
    trial = search.best if kind == BEST else search.trials[0]
    return trial.runs if trial is not None else {}


def table_note(plan: TunePlan) -> str:
    """What the figures of the tables are."""
    objective = plan.objective
    kind = "Geometric means" if objective.geometric else "Means"
    where = (
        f"{len(plan.fresh)} fresh seed{'s' * (len(plan.fresh) > 1)}, which chose nothing"
        if plan.fresh
        else "the seeds that trials were chosen by"
    )
    words = [f"{kind} over {where}, with 95 % intervals (Student's t)."]
    if objective.target is not None:
        limit = figure_of(objective.limit, objective)
        words += [f"A run that does not arrive counts as the limit, {limit}; the table says so."]
    words += ["Ratios are taken seed by seed."]
    if len(plan.space) > 1:
        words += ["Shares of keys: PED-ANOVA over finished trials."]
    return " ".join(words)


def verdict(plan: TunePlan, searches: Sequence[Search]) -> str:
    """Whether cases stand in the same order as they are configured as each at its best; nothing where unknown."""
    orders = []
    for kind in (CONFIGURED, BEST):
        means = {search.cell.short_label: _centre(plan.objective, judged(plan, search, kind)) for search in searches}
        if len(means) < 2 or any(value is None for value in means.values()):
            return ""
        orders.append(sorted(means, key=lambda name: plan.objective.score(means[name] or 0.0)))
    keys = ", ".join(_short(list(plan.space)))
    ways = [" < ".join(order) if plan.objective.less else " > ".join(order) for order in orders]
    by_name = {search.cell.short_label: judged(plan, search, BEST) for search in searches}
    open_ones = [f"{one} and {other}" for one, other in pairwise(orders[1]) if _open(by_name[one], by_name[other])]
    but = f" The seeds do not tell {', nor '.join(open_ones)} apart when tuned." if open_ones else ""
    if orders[0] == orders[1]:
        said = f"With {keys} as configured, cases stand in the order that they have when each is tuned: {ways[0]}."
    else:
        said = f"With {keys} as configured, cases stand as {ways[0]}; when each is tuned, as {ways[1]}."
    return said + but


def _open(one: RunsBySeed, other: RunsBySeed) -> bool:
    """Whether the interval of the ratio does not say which is more."""
    found = _counted_ratio(one, other)
    return found.ends is None or found.ends[0] <= 1 <= found.ends[1]


def at_ends(plan: TunePlan, searches: Sequence[Search]) -> str:
    """Which bests lie at the end of a range, beyond which there may be better; nothing where none does."""
    told = []
    for key, found in plan.space.items():
        there = [
            search.cell.short_label
            for search in searches
            if isinstance(found, Range) and search.best is not None and _is_end(found, search.best.params[key])
        ]
        if there:
            what = f"of {', '.join(there)} " if len(searches) > 1 else ""
            told.append(f"The best {key.rpartition('.')[2]} {what}lies at the end of its range; beyond may be better.")
    return " ".join(told)


def _is_end(found: Range, value: float) -> bool:
    low, high, place = (math.log(each) if found.log else each for each in (found.low, found.high, value))
    return not END < (place - low) / (high - low) < 1 - END


def figure_of(value: float | None, objective: TuneObjective) -> str:
    """`1.234 s`."""
    if value is None:
        return UNKNOWN
    text = cell_text(TableCell(mean=value), span=lambda low, high: "")
    return f"{text} {objective.unit}".strip()


def _centre(objective: TuneObjective, runs: RunsBySeed) -> float | None:
    counted = [run.counted for run in runs.values()]
    known = [value for value in counted if value is not None]
    return objective.of_trial(known) if known and len(known) == len(counted) else None


def _mean(objective: TuneObjective, runs: RunsBySeed) -> TableCell:
    """A mean with its interval; where runs do not arrive, how many do, and the mean that counts their limit."""
    counted = [run.counted for run in runs.values()]
    known = [value for value in counted if value is not None]
    arrived = sum(run.value is not None for run in runs.values())
    if not runs or len(known) < len(counted):
        return TableCell(words=UNKNOWN)
    if arrived < len(runs):
        return TableCell(words=f"{figure_of(objective.of_trial(known), objective)}, {arrived} of {len(runs)} arrive")
    is_geometric = objective.geometric and all(value > 0 for value in known)
    found: Interval | None = geometric(known) if is_geometric else arithmetic(known)
    if found is None:
        return TableCell(words=UNKNOWN)
    ends = None if found.low is None or found.high is None else (found.low, found.high)
    return TableCell(mean=found.mean, ends=ends) if is_geometric else TableCell(mean=found.mean, half=found.half)


def _ratio(one: RunsBySeed, other: RunsBySeed) -> TableCell:
    """How many times more the other is, by seed; no ratio is of runs that never arrived."""
    if any(run.value is None for runs in (one, other) for run in runs.values()):
        return TableCell(words=UNKNOWN)
    return _counted_ratio(one, other)


def _counted_ratio(one: RunsBySeed, other: RunsBySeed) -> TableCell:
    before: dict[Hashable, float | None] = {seed: run.counted for seed, run in one.items()}
    after: dict[Hashable, float | None] = {seed: run.counted for seed, run in other.items()}
    found = paired_ratio(before, after)
    if found is None:
        return TableCell(words=UNKNOWN)
    ends = None if found.low is None or found.high is None else (found.low, found.high)
    return TableCell(mean=found.mean, ends=ends, is_ratio=True)


def _to_baseline(
    own: Mapping[str, RunsBySeed], other: Mapping[str, RunsBySeed] | None, kind: str, is_baseline: bool
) -> TableCell:
    if is_baseline:
        return TableCell(words="baseline")
    return TableCell(words=UNKNOWN) if other is None else _ratio(other[kind], own[kind])


def _short(keys: Sequence[str]) -> list[str]:
    last = [key.rpartition(".")[2] for key in keys]
    return [name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)]


def _word(key: str, value: Any) -> str:
    return value if isinstance(value, str) else cell_names([{key: value}])[0].partition("=")[2]
