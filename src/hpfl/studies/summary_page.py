"""The page in short, as Markdown: claims, statements, figures and what made them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.studies.collected import Collected
from hpfl.studies.page import interval, machines, wanted

SUMMARY = "summary.md"


def write_summary(outcomes: Sequence[Collected], judged: Sequence[Mapping[str, Any]], out: Path, command: str) -> Path:
    """Write `summary.md` into `out`, with figures by relative path."""
    lines = [f"Made by `{command}`.", "", *_claims(judged)]
    for outcome in outcomes:
        lines += _study(outcome, out)
    atomic.write_text(out / SUMMARY, "\n".join(lines) + "\n")
    return out / SUMMARY


def _claims(judged: Sequence[Mapping[str, Any]]) -> list[str]:
    if not judged:
        return []
    head = ["| | claim | verdict | estimate and 95% interval | decided by |", "|---|---|---|---|---|"]
    rows = [
        f"| {claim['id']} | {claim['claim']} | **{claim['verdict']}** | {interval(claim)} | {claim['decided_by']} |"
        for claim in judged
    ]
    return [*head, *rows, ""]


def _study(outcome: Collected, out: Path) -> list[str]:
    study = outcome.study
    wall_s = sum(part["wall_s"] for part in outcome.found)
    lines = [
        f"## {study.name}: {study.title}",
        "",
        f"{study.about} `hpfl reproduce {study.name}`: {len(outcome.found)} of {len(outcome.parts)} runs, "
        f"{wall_s:.0f} s of run time in all on {', '.join(machines(outcome.found))}.",
        "",
    ]
    lines += [
        f"![{study.title}]({path.relative_to(out).as_posix()})\n" for path in outcome.figures if path.suffix == ".svg"
    ]
    lines += [f"{note}\n" for note in study.notes(outcome.tables)]
    if outcome.statements:
        lines += ["| statement | | estimate and 95% interval | |", "|---|---|---|---|"]
        rows = [statement.to_json() for statement in outcome.statements]
        lines += [f"| {row['statement']} | {row['verdict']} | {interval(row)} | {wanted(row)} |" for row in rows]
        lines += [""]
    return lines
