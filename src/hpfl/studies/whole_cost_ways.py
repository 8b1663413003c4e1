"""Who runs in `whole-cost`, and how: a contender has one or many ways to run, of which development seeds choose one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from hpfl.config import Config, load
from hpfl.studies.whole_cost_places import ALL, CODECS, UNSEEN, CostPlace
from hpfl.studies.whole_cost_short import as_it_is, with_slow_edge
from hpfl.sweeps.parts import Enough, Rounds, StudyPart

OURS, PUBLISHED = "fastest", "paper as published"
PRICED = "fastest, joules priced"
LONG_FULL, LONG_OURS = "full until it has converged", "fastest for as long"
OFF, OFF_BEFORE = "fastest, all off", "fastest-v1, all off"


class CostWay(NamedTuple):
    """One way to run: planner, bits, who hears, outer step (None: the preset's), band, and whatever else is set."""

    planner: str
    codec: str = "32 bits"
    hear: str = "auto"
    outer_lr: float | None = None
    spectrum: str = "phased"
    more: tuple[str, ...] = ()
    charged: bool = True

    @property
    def slug(self) -> str:
        """Its name in a path."""
        step = "own-step" if self.outer_lr is None else f"step-{self.outer_lr:g}"
        other = [] if self.spectrum == "phased" else [self.spectrum]
        return "/".join([self.planner, _plain(self.codec), self.hear, step, *other, *map(_plain, self.more)])


@dataclass(frozen=True)
class Contender:
    """Who is judged, under which name and in which group of runs; the first way is the only one, or the grid's."""

    group: str
    name: str
    ways: tuple[CostWay, ...]
    seconds: str = "longest_s"
    """Which of the place's limits holds."""


def contenders(place: CostPlace) -> Iterator[Contender]:
    """Everybody who is judged at a place."""
    if place.off:
        for name in (OFF, OFF_BEFORE):
            planner = name.partition(",")[0]
            yield Contender("all-off", name, (CostWay(planner, spectrum="fixed", charged=False),))
        return
    yield Contender("ours", OURS, _ours(place))
    if place.develops:
        yield Contender("published", PUBLISHED, (_published(),), "published_s")
        for rival in place.rivals:
            yield Contender("rivals", rival, tuple(_grid(place, rival, _hears(place, rival))))
        if place.seconds_per_joule:
            price = f"planning.planner_options.seconds_per_joule={place.seconds_per_joule:g}"
            yield Contender("joules", PRICED, _ours(place, more=(price,)))
    if place.decomposed:
        yield from _decomposed(place)
    yield from fixed_choices(place)


def fixed_choices(place: CostPlace) -> Iterator[Contender]:
    """As many random edges every round, one codec, all or the called hear; only the step is chosen."""
    for size, codec in product(place.sizes, place.codecs):
        planner = "full" if size == ALL else f"random-{size}"
        for hear in ("all",) if size == ALL else ("all", "scheduled"):
            ways = tuple(CostWay(planner, codec, hear, step) for step in place.steps)
            yield Contender("fixed", f"{planner}, {codec}, {hear}", ways, "fixed_s")


def _ours(place: CostPlace, **changed: Any) -> tuple[CostWay, ...]:
    """`fastest` with every step, of which it takes a part, and the codec left to it."""
    return tuple(CostWay(OURS, "auto", outer_lr=step)._replace(**changed) for step in place.steps)


def _published(**changed: Any) -> CostWay:
    """The paper's rule, band, bits and step, and the called edges hear; only the downlink is charged."""
    return CostWay("paper", hear="scheduled", spectrum="fixed")._replace(**changed)


def _hears(place: CostPlace, rival: str) -> tuple[str, ...]:
    """`full` calls everybody, and one edge at a time tries both; for the others it is as the place says."""
    one = ("all", "scheduled")
    return {"full": ("all",), "round-robin": one, "random-1": one}.get(rival, place.rivals_hear)


def _grid(place: CostPlace, planner: str, hears: tuple[str, ...]) -> Iterator[CostWay]:
    for codec, hear, step in product(place.codecs, hears, place.steps):
        yield CostWay(planner, codec, hear, step)


def _decomposed(place: CostPlace) -> Iterator[Contender]:
    """`fastest` without one thing, and the paper's rule with one thing."""
    without: dict[str, tuple[CostWay, ...]] = {
        "fastest, 32 bits": _ours(place, codec="32 bits"),
        "fastest, fixed band": _ours(place, spectrum="fixed"),
        "fastest, the called hear": _ours(place, hear="scheduled"),
        "fastest, all hear": _ours(place, hear="all"),
        "fastest, the paper's step": (CostWay(OURS, "auto"),),
    }
    for name, several in without.items():
        yield Contender("decomposition", name, several)
    codecs, called = place.codecs, CostWay("paper+p4", hear="scheduled")
    alone: dict[str, list[CostWay]] = {
        "fastest, the set alone": [_published(planner=OURS)],
        "paper, codec": [_published(codec=codec) for codec in codecs],
        "paper, own step": [_published(outer_lr=step) for step in place.steps],
        "paper, all hear": [_published(hear="all")],
        "paper+p4, fixed band": [_published(planner="paper+p4")],
        "paper+p4, phases": [called],
        "paper+p4, codec and phases": [called._replace(codec=codec) for codec in codecs],
    }
    for name, ways in alone.items():
        yield Contender("decomposition", name, tuple(ways), "published_s")


def development_part(place: CostPlace, way: CostWay, seed: int) -> StudyPart:
    """A way to run, tried on a seed that does not judge; it is given up once what was learned is lost."""
    name = f"development/{place.name}/{way.slug}"
    labels = {"group": "development", "contender": way.slug}
    published = way.planner.startswith("paper") and (way.spectrum == "fixed" or way.outer_lr is None)
    limit = place.limits.published_s if published else place.limits.development_s
    return _part(place, way, name, seed, labels=labels, stop_at_s=limit, enough=lost)


def judged_part(
    place: CostPlace, contender: Contender, way: CostWay, number: int, *, unseen: int = UNSEEN
) -> StudyPart:
    """A contender's run on an unseen seed."""
    name = f"{contender.group}/{place.name}/{_plain(contender.name)}"
    labels = {"group": contender.group, "contender": contender.name}
    stop_at_s = getattr(place.limits, contender.seconds)
    return _part(place, way, name, unseen + number, labels=labels, stop_at_s=stop_at_s)


def long_part(
    place: CostPlace, way: CostWay, number: int, *, until_s: float | None = None, unseen: int = UNSEEN
) -> StudyPart:
    """A run to no target: until it has converged, or for so many seconds."""
    contender = LONG_FULL if until_s is None else LONG_OURS
    often = 5 if until_s is None else 10
    long = way._replace(more=(*way.more, f"evaluation.every={often}"))
    labels = {"group": "converged", "contender": contender}
    return _part(
        place, long, f"converged/{place.name}/{_plain(contender)}", unseen + number,
        labels=labels, stop_at_s=until_s, enough=has_converged if until_s is None else None, to_target=False,
    )  # fmt: skip


def _part(
    place: CostPlace,
    way: CostWay,
    name: str,
    seed: int,
    *,
    labels: Mapping[str, Any],
    stop_at_s: float | None,
    enough: Enough | None = None,
    to_target: bool = True,
) -> StudyPart:
    rounds = place.rounds if to_target else (place.long_rounds if stop_at_s is None else 10 * place.long_rounds)
    given = {"data": place.data, "place": place.name, "edge_skew": place.edge_skew, "target": place.target}
    return StudyPart(
        name=f"whole-cost/{place.data}/{name}/seed-{seed}",
        labels={**given, **labels, **_told(way), "seed": seed},
        config=_config(place, way, seed, rounds),
        stop_at_accuracy=place.target if to_target else None,
        stop_at_s=stop_at_s,
        probe=(with_slow_edge if place.slow_edge else as_it_is) if to_target else None,
        enough=enough,
    )


def _told(way: CostWay) -> dict[str, Any]:
    return {name: getattr(way, name) for name in ("planner", "codec", "hear", "outer_lr", "spectrum")}


def _config(place: CostPlace, way: CostWay, seed: int, rounds: int) -> Config:
    """One configuration for all seeds, with another seed."""
    base = _seedless(place, way, rounds)
    return base.model_copy(update={"training": base.training.model_copy(update={"seed": seed})})


@cache
def _seedless(place: CostPlace, way: CostWay, rounds: int) -> Config:
    """Made once, though it is asked for every seed, and whenever it is looked what follows."""
    return load(place.preset, overrides=[*_overrides(place, way, rounds)])


def _overrides(place: CostPlace, way: CostWay, rounds: int) -> Iterator[str]:
    rule, _, size = way.planner.partition("-") if way.planner.startswith("random-") else (way.planner, "", "")
    yield f"planning.planner={rule}"
    if size:
        yield f"planning.max_edges={size}"
    elif rule == OURS and way.charged:
        yield "planning.max_edges=1000000"  # it has a number of its own
    yield f"data.edge_skew={place.edge_skew}"
    yield f"training.broadcast={way.hear}"
    yield f"training.rounds={rounds}"
    yield f"evaluation.every={place.every}"
    yield from () if way.outer_lr is None else (f"learning.outer_lr={way.outer_lr}",)
    if way.charged:
        yield f"learning.uplink={CODECS[way.codec]}"
        yield from ("network.downlink=charged", f"network.spectrum={way.spectrum}", "learning.charged_passes=counted")
    yield from (*place.changes, *way.more)


def _plain(text: str) -> str:
    """Letters, digits, dots and dashes, as a path wants them."""
    return "".join(
        sign if sign.isalnum() or sign in ".+" else "-" for sign in text.replace(", ", "-").replace(" %", "")
    )


TEN = 10
GAINED = 0.001
LEARNED = 0.5
LOST, FOR_GOOD = 0.1, 6


def lost(rows: Rounds) -> bool:
    """Whether six evaluations in a row lie ten points below the best: it is not worth while to go on."""
    accuracy = [row["personalised_accuracy"] for row in rows if row["personalised_accuracy"] is not None]
    return len(accuracy) > FOR_GOOD and max(accuracy[-FOR_GOOD:]) < max(accuracy) - LOST


def has_converged(rows: Rounds) -> bool:
    """Whether the mean of ten evaluations has gained less than 0.1 point on that of the ten before."""
    accuracy = [row["personalised_accuracy"] for row in rows if row["personalised_accuracy"] is not None]
    late, early = sum(accuracy[-TEN:]) / TEN, sum(accuracy[-2 * TEN : -TEN]) / TEN
    return len(accuracy) >= 2 * TEN and late > LEARNED and late - early < GAINED
