"""The tables of `whole-cost` as a reader wants them, in Markdown: bars, everybody's seconds, fixed choices, factors."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.studies.curves import name
from hpfl.studies.study import Rows, TableRow, Tables
from hpfl.studies.tabulate import where
from hpfl.studies.whole_cost_tables import BEST_FIXED
from hpfl.studies.whole_cost_ways import OFF_BEFORE, OURS

REPORT = "tables.md"


def write_report(made: Tables, folder: Path) -> Path:
    """Write `tables.md` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = {
        "Bars": _bars(made["bars"]),
        **{f"Seconds: {_where(place)}": _seconds(made, place) for place in _places(made["cells"], "rivals")},
        "Fixed choices in hindsight": _fixed(made),
        "With the others on": _factors(made["factors"], "on"),
        "With the others off": _factors(made["factors"], "off"),
        "All off": _off(made["versus"]),
        "Once full has converged": _converged(made["converged"]),
    }
    text = "\n".join(f"## {title}\n\n{table}" for title, table in sections.items() if table)
    atomic.write_text(folder / REPORT, text)
    return folder / REPORT


def _places(rows: Rows, group: str) -> list[TableRow]:
    keys = dict.fromkeys((row["data"], row["place"]) for row in where(rows, group=group))
    return [{"data": data, "place": place} for data, place in keys]


def _where(row: TableRow) -> str:
    return f"{name(row['data'])}, {row['place']}"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; nothing where it has no rows."""
    lines = [" | ".join(map(str, row)) for row in rows]
    top = [" | ".join(head), "|".join("---" for _ in head)]
    return "".join(f"| {line} |\n" for line in (*top, *lines)) if lines else ""


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def _with_ends(row: TableRow, column: str, ends: tuple[str, str] = ("low", "high")) -> str:
    """A value, at least that where it says so, with its interval."""
    low, high = (row.get(end) for end in ends)
    least = "at least " if row.get("at_least") else ""
    return f"{least}{_number(row[column])}" + ("" if low is None else f" ({_number(low)} .. {_number(high)})")


def _bars(rows: Rows) -> str:
    head = ("bar", "where", "measured", "wanted", "")
    return _table(
        head,
        (
            (row["bar"], _where(row), _with_ends(row, "measured"), row["wanted"], "met" if row["met"] else "**missed**")
            for row in rows
        ),
    )


def _seconds(made: Tables, place: TableRow) -> str:
    """Everybody but the fixed choices, the quickest first."""
    groups = {"ours", "published", "rivals", "joules"}
    here = [row for row in where(made["cells"], **place) if row["group"] in groups]
    rivals = {row["rival"]: row for row in where(made["versus"], **place)}
    head = ("", "codec", "step", "hear", "seconds", "J", "rounds", "edges a round", f"`{OURS}` is faster by")
    order = sorted(here, key=lambda row: (row["reached"] < row["seeds"], row["time_s"] or 0.0))
    return _table(head, (_line(row, rivals.get(row["contender"])) for row in order))


def _line(row: TableRow, against: TableRow | None) -> tuple[Any, ...]:
    ends = ("time_low_s", "time_high_s")
    whole = row["reached"] == row["seeds"]
    seconds = _with_ends(row, "time_s", ends) if whole else f"{row['reached']} of {row['seeds']} arrive"
    given = (row["codec"], row["outer_lr"] or "", row["hear"])
    spent = (_number(row["energy_j"]), _number(row["rounds"]), _number(row["mean_edges"]))
    return (f"`{row['contender']}`", *given, seconds, *spent, "" if against is None else _with_ends(against, "speedup"))


def _fixed(made: Tables) -> str:
    """`fastest` beside the fixed choice that was best over the seeds that judge."""
    head = (
        "",
        f"`{OURS}`, s",
        "best fixed choice, of how many",
        "its seconds",
        "its step",
        f"`{OURS}` takes times as long",
    )
    rows = []
    for row in where(made["versus"], rival=BEST_FIXED):
        here = where(made["cells"], data=row["data"], place=row["place"])
        ours, best = (next(cell for cell in here if cell["contender"] == who) for who in (OURS, row["which"]))
        inverse = {"times": 1 / row["speedup"] if row["speedup"] else None}
        inverse |= {low: 1 / row[high] if row[high] else None for low, high in (("low", "high"), ("high", "low"))}
        which, seconds = f"{row['which']}, of {row['choices']}", (_number(cell["time_s"]) for cell in (ours, best))
        mine, theirs = seconds
        rows.append((_where(row), mine, which, theirs, best["outer_lr"], _with_ends(inverse, "times")))
    return _table(head, rows)


def _factors(rows: Rows, others: str) -> str:
    """A line per factor, a column per place."""
    here = where(rows, others=others)
    places = list(dict.fromkeys((row["data"], row["place"]) for row in here))
    factors = dict.fromkeys((row["factor"], row["without"], row["with"]) for row in here)
    head = ("factor", "without", "with", *(f"{name(data)}, {place}" for data, place in places))
    every = {(row["factor"], row["data"], row["place"]): _gain(row) for row in here}
    return _table(head, ((*one, *(every.get((one[0], *place), "") for place in places)) for one in factors))


def _gain(row: TableRow) -> str:
    return _with_ends(row, "gain") + ("" if row["arrived"] else ", not all arrive")


def _off(rows: Rows) -> str:
    here = where(rows, rival=OFF_BEFORE)
    return _table(("", "times faster than `fastest-v1`"), ((_where(row), _with_ends(row, "speedup")) for row in here))


def _converged(rows: Rows) -> str:
    head = ("", "seed", "seconds", "`full`", f"`{OURS}`", "points more")
    return _table(
        head,
        (
            (
                _where(row),
                row["seed"],
                _number(row["seconds"]),
                *(f"{100 * row[who]:.1f} %" for who in ("full_accuracy", "fastest_accuracy")),
                f"{row['lead_points']:+.2f}",
            )
            for row in rows
        ),
    )
