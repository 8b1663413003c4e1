"""The tables of `whole-cost`: cells over seeds, everybody against `fastest`, the gain factor by factor, and ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpfl.reporting.intervals import geometric
from hpfl.studies.bars import BarCell, paired, slowness
from hpfl.studies.study import Found, Rows, TableRow
from hpfl.studies.tabulate import where
from hpfl.studies.time_to_accuracy import over_seeds
from hpfl.studies.whole_cost_ways import LONG_FULL, LONG_OURS, OFF, OURS, PUBLISHED, TEN

BEST_FIXED = "best fixed choice"
_CELL = ("data", "place", "edge_skew", "target", "group", "contender")
_WAY = ("planner", "codec", "hear", "outer_lr", "spectrum")
_PLACE = ("data", "place", "edge_skew", "target")
FACTORS: Sequence[tuple[str, str, str, str]] = (
    ("codec", "on", "fastest, 32 bits", OURS),
    ("phases", "on", "fastest, fixed band", OURS),
    ("set", "on", "paper+p4", OURS),
    ("hearing (else the called)", "on", "fastest, the called hear", OURS),
    ("hearing (else all)", "on", "fastest, all hear", OURS),
    ("step", "on", "fastest, the paper's step", OURS),
    ("codec", "off", PUBLISHED, "paper, codec"),
    ("exact bandwidth", "off", PUBLISHED, "paper+p4, fixed band"),
    ("phases", "off", "paper+p4, fixed band", "paper+p4, phases"),
    ("set", "off", PUBLISHED, "fastest, the set alone"),
    ("hearing (all)", "off", PUBLISHED, "paper, all hear"),
    ("step", "off", PUBLISHED, "paper, own step"),
    ("codec and phases", "off", PUBLISHED, "paper+p4, codec and phases"),
    ("everything", "off", PUBLISHED, OURS),
)
"""A factor, whether the others are on or off, who runs without it and who with it."""


def cells(runs: Rows) -> Rows:
    """One row per place and contender: what it runs with, and geometric means over its seeds."""
    groups: dict[tuple[Any, ...], list[TableRow]] = {}
    for row in runs:
        groups.setdefault(tuple(row[name] for name in _CELL), []).append(row)
    return [
        dict(zip(_CELL, key, strict=True)) | _way(members) | over_seeds(members) | _downlink(members)
        for key, members in groups.items()
    ]


def _way(members: Sequence[TableRow]) -> TableRow:
    return {name: members[0][name] for name in _WAY}


def _downlink(members: Sequence[TableRow]) -> TableRow:
    """Bits on the way down, and the share of the time that broadcasts take."""
    there = [row for row in members if row["reached"] and row["downlink_bits"]]
    bits = geometric([row["downlink_bits"] for row in there])
    shares = [row["broadcast_s"] / row["time_s"] for row in there if row["broadcast_s"] is not None]
    return {
        "downlink_bits": bits.mean if bits else None,
        "broadcast_share": sum(shares) / len(shares) if shares else None,
        "rounds": sum(row["rounds"] for row in members) / len(members),
    }


def versus(runs: Rows) -> Rows:
    """Everybody against `fastest` of the same place, paired by seed; the best fixed choice, in hindsight, once more."""
    return [row for place in _places(runs) for row in _versus(where(runs, **place), place)]


def _places(runs: Rows) -> list[TableRow]:
    return [dict(zip(_PLACE, key, strict=True)) for key in dict.fromkeys(tuple(r[n] for n in _PLACE) for r in runs)]


def _versus(here: Rows, place: TableRow) -> Iterator[TableRow]:
    every = by_contender(here)
    ours = every.get(OURS) or every.get(OFF)
    if not ours:
        return
    for name, cell in every.items():
        if cell is not ours:
            yield place | _against(name, cell, ours)
    fixed = {name: cell for name, cell in every.items() if _first(cell)["group"] == "fixed"}
    most = max(map(len, fixed.values()), default=0)
    whole = [name for name, cell in fixed.items() if len(cell) == most]
    if whole:
        best = min(whole, key=lambda name: slowness(fixed[name]))
        yield place | _against(BEST_FIXED, fixed[best], ours) | {"which": best, "choices": len(whole)}


def by_contender(rows: Iterable[TableRow]) -> dict[str, dict[int, TableRow]]:
    """Runs by contender, then by seed."""
    every: dict[str, dict[int, TableRow]] = {}
    for row in rows:
        every.setdefault(row["contender"], {})[row["seed"]] = row
    return every


def _first(cell: BarCell) -> Mapping[str, Any]:
    return next(iter(cell.values()))


def _against(rival: str, theirs: BarCell, ours: BarCell) -> TableRow:
    first = _first(theirs)
    return {
        "group": first["group"],
        "rival": rival,
        "which": rival,
        **{name: first[name] for name in _WAY},
        **paired(theirs, ours),
        "joules": _joules(theirs, ours),
    }


def _joules(theirs: BarCell, ours: BarCell) -> float | None:
    """How many times the rival's joules `fastest` spends, where both arrive."""
    both = [seed for seed in ours if seed in theirs and ours[seed]["reached"] and theirs[seed]["reached"]]
    found = geometric([ours[seed]["energy_j"] / theirs[seed]["energy_j"] for seed in both if theirs[seed]["energy_j"]])
    return found.mean if found else None


def factors(runs: Rows) -> Rows:
    """The gain factor by factor, with the others on and off, paired by seed."""
    out = []
    for place in _places(runs):
        every = by_contender(where(runs, **place))
        for factor, others, without, having in FACTORS:
            slow, fast = every.get(without), every.get(having)
            if slow and fast and slow.keys() & fast.keys():
                names = {"factor": factor, "others": others, "without": without, "with": having}
                found = paired(slow, fast)
                gain = {"gain": found["speedup"], **{key: found[key] for key in ("low", "high", "at_least", "seeds")}}
                out.append({**place, **names, **gain, "arrived": found["fastest_arrived"]})
    return out


def converged(found: Iterable[Found]) -> Rows:
    """Accuracies of `full` when it has converged and of `fastest` after as many seconds, seed by seed.

    Each is the mean of its last ten evaluations; `lead_points` is what `fastest` has more.
    """
    ends: dict[tuple[Any, ...], dict[str, Found]] = {}
    for part in found:
        labels = part["labels"]
        if labels["group"] == "converged":
            ends.setdefault((labels["data"], labels["place"], labels["seed"]), {})[labels["contender"]] = part
    return [
        {"data": data, "place": place, "seed": seed} | _ends(pair[LONG_FULL], pair[LONG_OURS])
        for (data, place, seed), pair in sorted(ends.items())
        if {LONG_FULL, LONG_OURS} <= pair.keys()
    ]


def _ends(full: Found, ours: Found) -> TableRow:
    theirs, mine = _late(full), _late(ours)
    return {
        "seconds": full["rounds"]["time_s"][-1],
        "full_accuracy": theirs,
        "fastest_accuracy": mine,
        "lead_points": 100.0 * (mine - theirs),
    }


def _late(part: Found) -> float:
    accuracy = [value for value in part["rounds"]["personalised_accuracy"] if value is not None][-TEN:]
    return float(sum(accuracy) / len(accuracy))
