"""Study `whole-cost-settled`: what `whole-cost` settled on its development seeds, run again on seeds that are fresh.

The codecs, steps and hearers of `SETTLED` are those that won the development runs of `whole-cost`, which are recorded
in docs/reproduction/whole-cost/development.csv. So a planner that has changed since is judged without that grid, on
few cores, against everybody at their best and against the fixed choices that came nearest.
"""

from collections.abc import Iterator, Mapping, Sequence

from hpfl.studies.cases import Scale
from hpfl.studies.study import Found, Rows, Study, Tables
from hpfl.studies.whole_cost import picture, tables
from hpfl.studies.whole_cost_bars import missed
from hpfl.studies.whole_cost_places import CostPlace, places
from hpfl.studies.whole_cost_ways import (
    OURS,
    PRICED,
    PUBLISHED,
    Contender,
    CostWay,
    contenders,
    judged_part,
    long_part,
)
from hpfl.sweeps.parts import StudyPart

FRESH = 400
"""What is added to a seed's number: seeds 400 to 404 judge."""
_SPARSE = "top 1 %, 8 bits"
_RIVALS: Mapping[str, Mapping[str, CostWay]] = {
    "skew-0": {
        "paper+p4": CostWay("paper+p4", _SPARSE, "scheduled", 0.5),
        "full": CostWay("full", _SPARSE, "all", 0.5),
        "shpfl": CostWay("shpfl", "ternary", "scheduled", 0.7),
        "round-robin": CostWay("round-robin", "ternary", "all", 0.2),
        "random-1": CostWay("random-1", "ternary", "all", 0.2),
    },
    "skew-1": {
        "paper+p4": CostWay("paper+p4", _SPARSE, "all", 1.0),
        "full": CostWay("full", _SPARSE, "all", 0.5),
        "shpfl": CostWay("shpfl", "ternary", "all", 0.5),
        "round-robin": CostWay("round-robin", "ternary", "all", 0.2),
        "random-1": CostWay("random-1", "ternary", "all", 0.2),
    },
}
"""Of every rival; `joint` chooses the sets of `paper+p4` here, and is not run twice."""
_FIXED: Mapping[str, tuple[CostWay, ...]] = {
    "skew-0": (
        CostWay("random-15", _SPARSE, "scheduled", 0.5),
        CostWay("random-4", "ternary", "all", 0.5),
        CostWay("random-8", "ternary", "all", 0.5),
        CostWay("full", "ternary", "all", 0.7),
    ),
    "skew-1": (
        CostWay("random-15", _SPARSE, "scheduled", 0.5),
        CostWay("full", "ternary", "all", 0.7),
    ),
}
"""The fixed choices that came nearest to the best, beside `full` with the top 1 % in 8 bits, which is a rival."""
_ELSEWHERE = (*_FIXED["skew-0"], CostWay("full", _SPARSE, "all", 0.5))
_STEP = 0.5  # of `fastest`
_DEVELOPED = ("skew-0", "skew-1")


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """Everybody at what was settled, on the seeds that judge; a sample has `fastest` and `full` alone."""
    return [part for place in _places(scale) for number in seeds for part in _judged(place, number, thin=scale.thin)]


def then(scale: Scale, seeds: Sequence[int], found: Sequence[Found]) -> list[StudyPart]:
    """`full` until it has converged; once that is known, `fastest` for as many seconds."""
    if scale.thin:
        return []
    return [part for place in _places(scale) if place.develops for n in seeds for part in _long(place, n, found)]


def _places(scale: Scale) -> list[CostPlace]:
    """MNIST with everything charged."""
    return [place for place in places(scale) if not place.off and place.data.startswith("mnist")]


def _judged(place: CostPlace, number: int, *, thin: bool) -> Iterator[StudyPart]:
    for contender, way in settled(place):
        if not thin or contender.name in {OURS, "full"}:
            yield judged_part(place, contender, way, number, unseen=FRESH)


def settled(place: CostPlace) -> Iterator[tuple[Contender, CostWay]]:
    """Everybody who is judged at a place, and how it runs."""
    rivals = _RIVALS.get(place.name, {}) if place.develops else {}
    for contender in contenders(place):
        if contender.name in {OURS, PRICED}:
            yield contender, next(way for way in contender.ways if way.outer_lr == _STEP)
        elif contender.name == PUBLISHED:
            yield contender, contender.ways[0]
        elif contender.group == "rivals" and contender.name in rivals:
            yield contender, rivals[contender.name]
    for way in _FIXED.get(place.name, _ELSEWHERE):
        if int(way.planner.partition("-")[2] or 0) <= max(place.sizes):
            yield Contender("fixed", f"{way.planner}, {way.codec}, {way.hear}", (way,), "fixed_s"), way


def _long(place: CostPlace, number: int, found: Sequence[Found]) -> Iterator[StudyPart]:
    if not place.long_rounds:
        return
    full = long_part(place, _RIVALS[place.name]["full"], number, unseen=FRESH)
    yield full
    ended = next((part["rounds"]["time_s"][-1] for part in found if part["labels"] == full.labels), None)
    if ended:
        ours = CostWay(OURS, "auto", outer_lr=_STEP)
        yield long_part(place, ours, number, unseen=FRESH, until_s=round(ended, 3))


def all_tables(found: Sequence[Found]) -> Tables:
    """Those of `whole-cost`; `full` with the top 1 % is a rival and a fixed choice at once."""
    return tables([*found, *map(_as_fixed, filter(_is_full, found))])


def _is_full(part: Found) -> bool:
    return bool(part["labels"]["group"] == "rivals" and part["labels"]["contender"] == "full")


def _as_fixed(part: Found) -> Found:
    labels = part["labels"]
    name = f"full, {labels['codec']}, {labels['hear']}"
    return {**part, "labels": {**labels, "group": "fixed", "contender": name}}


def notes(made: Tables) -> list[str]:
    """A line for every bar that is not met."""
    rows: Rows = made["bars"]
    return missed(rows)


STUDY = Study(
    name="whole-cost-settled",
    title="Simulated time to an accuracy, everything charged, on fresh seeds",
    about="The study `whole-cost` without its grid: everybody takes the codec, the step and the hearers that were "
    f"settled on its development seeds; seeds from {FRESH} on judge. A speed-up above 1 says that `fastest` is faster.",
    parts=parts,
    tables=all_tables,
    draw=picture,
    shown=("bars", "versus"),
    notes=notes,
    then=then,
)
