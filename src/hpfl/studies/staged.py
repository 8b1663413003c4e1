"""All runs of a study that are known by now: those it begins with, and those that follow from what they came to."""

from collections.abc import Sequence
from pathlib import Path

from hpfl.studies.cases import Scale
from hpfl.studies.study import Study, nothing_more
from hpfl.sweeps.parts import StudyPart
from hpfl.sweeps.runner import results


def known_parts(study: Study, scale: Scale, seeds: Sequence[int], out: Path) -> list[StudyPart]:
    """Every part, each once: what the study begins with, then what follows from it."""
    first = study.parts(scale, seeds)
    if study.then is nothing_more:
        return first
    parts = {part.name: part for part in first}
    found, fresh = results(first, out), parts
    while fresh:
        every = {part.name: part for part in study.then(scale, seeds, found)}
        fresh = {name: part for name, part in every.items() if name not in parts}
        parts = parts | fresh
        found += results(fresh.values(), out)
    return list(parts.values())
