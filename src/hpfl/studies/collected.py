"""What the runs of some studies came to: tables, figures and verdicts, written below one folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting.looks import asked, drawn_as
from hpfl.studies.cases import Scale
from hpfl.studies.catalogue import STUDIES
from hpfl.studies.claims import Statement, controlled, judge
from hpfl.studies.staged import known_parts
from hpfl.studies.study import Found, Study, Tables, nothing_more
from hpfl.studies.tables import write_rows
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.runner import results

CLAIMS_FILE = "claims.json"


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One study with what there is of it: runs found and wanted, tables, figures and statements."""

    study: Study
    parts: Sequence[StudyPart]
    found: Sequence[Found]
    tables: Tables
    figures: Sequence[Path]
    statements: Sequence[Statement]


def collect(wanted: Sequence[Study], scale: Scale, seeds: Sequence[int], out: Path) -> list[Collected]:
    """Tables and figures of the studies wanted that have a run under `out`, and of all others that are complete there.

    They are written to `out/STUDY`.
    """
    mine = {study.name: study for study in wanted}
    every = [study for study in {**STUDIES, **mine}.values() if study.name in mine or _begun(study, out)]
    known = ((study, known_parts(study, scale, seeds, out)) for study in every)
    made = [_outcome(study, parts, out) for study, parts in known if study.name in mine or _complete(parts, out)]
    return _controlled([outcome for outcome in made if outcome is not None])


def _begun(study: Study, out: Path) -> bool:
    """Whether it is worth while to look for its runs, which are very many where some follow from others."""
    return study.then is nothing_more or (out / "parts" / study.name).is_dir()


def _controlled(outcomes: list[Collected]) -> list[Collected]:
    """The outcomes with the level of their statements set by all statements together."""
    level = iter(controlled([statement for outcome in outcomes for statement in outcome.statements]))
    return [replace(outcome, statements=[next(level) for _ in outcome.statements]) for outcome in outcomes]


def _complete(parts: Sequence[StudyPart], out: Path) -> bool:
    return bool(parts) and all(done(part, out) is not None for part in parts)


def _outcome(study: Study, parts: Sequence[StudyPart], out: Path) -> Collected | None:
    found = results(parts, out)
    if not found:
        return None
    tables = study.tables(found)
    for name, rows in tables.items():
        write_rows(out / study.name, name, rows)
    figures = _figures(study, tables, out / study.name)
    statements = study.claims(tables)
    return Collected(study=study, parts=parts, found=found, tables=tables, figures=figures, statements=statements)


def _figures(study: Study, tables: Tables, folder: Path) -> Sequence[Path]:
    """The figures of the page; beside them, those in kinds and looks that were asked for besides."""
    wanted = asked()
    with drawn_as():
        shown = study.draw(tables, folder)
    if wanted.look.name != "screen":
        study.draw(tables, folder / wanted.look.name)
    elif wanted.kinds:
        study.draw(tables, folder)
    return shown


def verdicts(outcomes: Sequence[Collected], out: Path) -> list[dict[str, Any]]:
    """Judge the claims by all statements, and write `claims.json`."""
    judged = judge(statement for outcome in outcomes for statement in outcome.statements)
    atomic.write_text(out / CLAIMS_FILE, json.dumps(judged, indent=1, allow_nan=False) + "\n")
    return judged
