"""What everybody runs with: the way that was best on the development seeds, and the runs that follow from it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpfl.reporting.intervals import geometric
from hpfl.studies.study import Found, TableRow
from hpfl.studies.time_to_accuracy import run_row
from hpfl.studies.whole_cost_places import CostPlace
from hpfl.studies.whole_cost_ways import Contender, CostWay, contenders, development_part
from hpfl.sweeps.parts import StudyPart

SHORTLIST = 4
"""So many ways of a contender are tried on every development seed; of a fixed choice's steps half as many."""
HOPELESS, ELSEWHERE = 2.5, 4.0
"""Fixed choices are left out that took as many times the best one's seconds where they were chosen; other places."""

Merit = tuple[float, float, float]


@dataclass(frozen=True)
class Development:
    """What the development runs came to, by place, way and seed."""

    seeds: Sequence[int]
    rows: Mapping[tuple[str, str, str], Mapping[int, TableRow]]

    def of(self, place: CostPlace, way: CostWay) -> Mapping[int, TableRow]:
        """The runs of a way, by seed."""
        return self.rows.get((place.data, place.chosen_at or place.name, way.slug), {})

    def first(self, place: CostPlace, way: CostWay) -> Merit:
        """How well a way did on the first seed."""
        return merit([self.of(place, way)[self.seeds[0]]])

    def shortlist(self, place: CostPlace, contender: Contender) -> Sequence[CostWay]:
        """The ways to try on every seed, best first; none before all were tried on one, one where none arrived."""
        if not all(self.seeds[0] in self.of(place, way) for way in contender.ways):
            return ()
        best = sorted(contender.ways, key=lambda way: self.first(place, way))
        most = SHORTLIST // 2 if contender.group == "fixed" else SHORTLIST
        return [way for way in best if self.first(place, way)[0] == 0][:most] or best[:1]

    def chosen(self, place: CostPlace, contender: Contender) -> CostWay | None:
        """The best way of the shortlist, once it was tried on all seeds; None before. Where all fail, nobody cares."""
        if len(contender.ways) == 1:
            return contender.ways[0]
        short = self.shortlist(place, contender)
        tried = [way for way in short if set(self.seeds) <= set(self.of(place, way))]
        if len(short) == 1:
            return short[0]
        return min(tried, key=lambda way: self.merit(place, way)) if short and len(tried) == len(short) else None

    def merit(self, place: CostPlace, way: CostWay) -> Merit:
        """How well a way did on all seeds that it was tried on."""
        return merit(list(self.of(place, way).values()))


def merit(rows: Sequence[TableRow]) -> Merit:
    """Less is better: the share that does not arrive, seconds of those that do, and minus the best accuracy."""
    there = geometric([row["time_s"] for row in rows if row["reached"]])
    missing = sum(not row["reached"] for row in rows) / len(rows)
    return missing, there.mean if there else 0.0, -sum(row["best_accuracy"] for row in rows) / len(rows)


def development(found: Iterable[Found], seeds: Sequence[int]) -> Development:
    """The development runs among those found."""
    rows: dict[tuple[str, str, str], dict[int, TableRow]] = {}
    for part in found:
        labels = part["labels"]
        if labels["group"] == "development":
            key = (labels["data"], labels["place"], labels["contender"])
            rows.setdefault(key, {})[labels["seed"]] = cost_row(part)
    return Development(seeds, rows)


def cost_row(part: Found) -> dict[str, Any]:
    """A run with what it took to its target, on the way down as well."""
    row = run_row(part, part["labels"]["target"])
    columns, rounds = part["rounds"], row["rounds"]
    accuracy = [value for value in columns["personalised_accuracy"] if value is not None]
    totals = {name: _total(columns.get(name), rounds) for name in ("downlink_bits", "broadcast_s")}
    return {**row, **totals, "best_accuracy": max(accuracy, default=0.0)}


def _total(column: Sequence[float | None] | None, rounds: int) -> float | None:
    way = [value for value in (column or ())[:rounds] if value is not None]
    return sum(way) if way else None


def development_parts(place: CostPlace, seed: int) -> Iterator[StudyPart]:
    """Every way of everybody who has a choice, on one seed; ways that are several contenders' once."""
    ways = {way: None for contender in contenders(place) if len(contender.ways) > 1 for way in contender.ways}
    return (development_part(place, way, seed) for way in ways)


def worth_while(place: CostPlace, known: Development, choices: Mapping[Contender, CostWay]) -> dict[Contender, CostWay]:
    """The choices without those fixed ones that took far longer than the best where they were chosen."""
    fixed = {one: known.merit(place, way) for one, way in choices.items() if one.group == "fixed"}
    arrived = [found[1] for found in fixed.values() if found[0] == 0]
    if not arrived:
        return dict(choices)
    most = (HOPELESS if place.develops else ELSEWHERE) * min(arrived)
    return {one: way for one, way in choices.items() if one not in fixed or _within(fixed[one], most)}


def _within(found: Merit, most: float) -> bool:
    return found[0] == 0 and found[1] <= most
