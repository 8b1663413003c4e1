"""Study `whole-cost`: seconds to an accuracy where downlink, bits, headers, sketches and all arithmetic are charged.

Everybody takes the codec, the step and the hearers that were best for it on development seeds, in the same spectrum,
and is judged on seeds that nobody has seen. Its runs come in groups, each a part of their names: `development`, `ours`,
`published`, `rivals`, `fixed`, `decomposition`, `joules`, `converged` and `all-off`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpfl.studies.cases import Scale
from hpfl.studies.study import Found, Study, Tables
from hpfl.studies.whole_cost_bars import bars, missed
from hpfl.studies.whole_cost_choice import Development, cost_row, development, development_parts, worth_while
from hpfl.studies.whole_cost_picture import draw
from hpfl.studies.whole_cost_places import DEVELOPMENT, UNSEEN, CostPlace, development_seeds, places
from hpfl.studies.whole_cost_report import write_report
from hpfl.studies.whole_cost_tables import cells, converged, factors, versus
from hpfl.studies.whole_cost_ways import OURS, Contender, CostWay, contenders, development_part, judged_part, long_part
from hpfl.sweeps.parts import StudyPart


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """What nothing needs to be known for: the development grid on its first seed, and whoever has no choice."""
    first = development_seeds(scale)[0]
    every = places(scale)
    grid = [part for place in every if place.develops for part in development_parts(place, first)]
    settled = [
        judged_part(place, contender, contender.ways[0], number)
        for number in seeds
        for place in every
        for contender in contenders(place)
        if len(contender.ways) == 1
    ]
    return [*settled, *grid]


def then(scale: Scale, seeds: Sequence[int], found: Sequence[Found]) -> list[StudyPart]:
    """The best ways on the other development seeds, what was chosen on the seeds that judge, and long runs."""
    known = development(found, development_seeds(scale))
    every = [place for place in places(scale) if not place.off]
    tried = [part for place in every if place.develops for part in _tried(place, known)]
    followed = {place: _settled(place, known) for place in every}
    long = [part for place, ways in followed.items() for part in _long(place, ways, seeds, found)]
    return [*tried, *long, *(part for place, ways in followed.items() for part in _judged(place, ways, seeds))]


def _tried(place: CostPlace, known: Development) -> Iterator[StudyPart]:
    """The shortlists on the other development seeds, but for ways that did not arrive on the first."""
    several = [contender for contender in contenders(place) if len(contender.ways) > 1]
    short = {way: None for one in several for way in known.shortlist(place, one) if known.first(place, way)[0] == 0}
    return (development_part(place, way, seed) for way in short for seed in known.seeds[1:])


def _settled(place: CostPlace, known: Development) -> dict[Contender, CostWay]:
    every = {one: way for one in contenders(place) if (way := known.chosen(place, one)) is not None}
    return worth_while(place, known, every)


def _judged(place: CostPlace, settled: Mapping[Contender, CostWay], seeds: Sequence[int]) -> Iterator[StudyPart]:
    """What was chosen, on the seeds that judge."""
    for number in seeds:
        yield from (judged_part(place, one, way, number) for one, way in settled.items() if len(one.ways) > 1)


def _long(
    place: CostPlace, settled: Mapping[Contender, CostWay], seeds: Sequence[int], found: Sequence[Found]
) -> Iterator[StudyPart]:
    """`full` until it has converged; once that is known, `fastest` for as many seconds."""
    ways = {one.name: way for one, way in settled.items()}
    if not place.long_rounds or not {OURS, "full"} <= ways.keys():
        return
    for number in seeds[: place.long_seeds]:
        full = long_part(place, ways["full"], number)
        yield full
        ended = next((part["rounds"]["time_s"][-1] for part in found if part["labels"] == full.labels), None)
        if ended:
            yield long_part(place, ways[OURS], number, until_s=round(ended, 3))


def tables(found: Sequence[Found]) -> Tables:
    """`bars` with what was wanted, `factors` of the gain, everybody `versus` `fastest`, `choices`, `cells`, `runs`."""
    rows = [cost_row(part) for part in found if part["labels"]["group"] != "converged"]
    runs = [row for row in rows if row["group"] != "development"]
    every, ends = cells(runs), converged(found)
    against = versus(runs)
    return {
        "bars": bars(every, against, ends),
        "factors": factors(runs),
        "versus": against,
        "cells": every,
        "converged": ends,
        "runs": runs,
        "development": [row for row in rows if row["group"] == "development"],
    }


def picture(made: Tables, folder: Path) -> list[Path]:
    """Everybody's seconds, and the tables as a reader wants them."""
    return [*draw(made, folder), write_report(made, folder)]


STUDY = Study(
    name="whole-cost",
    title="Simulated time to an accuracy, everything charged",
    about="Downlink, codec headers, sketches and all arithmetic are charged. Everybody has phases that share the band, "
    "and takes the codec, the step and the hearers that were best for it on development seeds "
    f"{' and '.join(map(str, DEVELOPMENT))}; seeds from {UNSEEN} on judge. A speed-up above 1 says that `fastest` "
    "is faster.",
    parts=parts,
    tables=tables,
    draw=picture,
    shown=("bars", "factors", "versus"),
    notes=lambda made: missed(made["bars"]),
    then=then,
)
