"""Which children hold an update that counts: its sketch and the model it was computed on, by child."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.deployment.checks import CheckedSketch, check_same_model
from hpfl.deployment.deliveries import Held
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag
from hpfl.learning.uplink import Uplink


class Gathering:
    """What children hold; it counts where it was computed on the current model, or on one that was `allowed`."""

    def __init__(self, tag: Tag | None = None) -> None:
        self.tag = tag
        self.held: dict[int, Held] = {}
        self.failed: set[int] = set()
        self.vacant: dict[int, str] = {}
        self.allowed: Mapping[int, Tag] = {}
        self.changed = asyncio.Event()

    def turn_to(self, tag: Tag) -> None:
        """There is a newer model; updates on the older one are looked at again by `drop_invalid`."""
        self.tag = tag
        self.failed.clear()

    def drop_invalid(self) -> None:
        """Forget updates on models that count no longer."""
        self.held = {number: held for number, held in self.held.items() if self.counts(number, held.tag)}

    def is_current(self, tag: Tag) -> bool:
        """Whether a tag is about the current model."""
        return self.tag is not None and tag.about_same_model(self.tag)

    def counts(self, number: int, tag: Tag) -> bool:
        """Whether a child's update on the model of a tag may be used."""
        allowed = self.allowed.get(number)
        return self.is_current(tag) or (allowed is not None and tag.about_same_model(allowed))

    def holds(self, number: int, tag: Tag) -> bool:
        """Whether a child's sketch about the model of a tag is here."""
        return number in self.held and self.held[number].tag.about_same_model(tag)

    def check(self, number: int, tag: Tag) -> None:
        """Refuse sketches nobody waits for, second ones, and those about another model."""
        if self.tag is None:
            raise RefusedError("unexpected", "a sketch came that nobody asked for")
        if self.holds(number, tag):
            raise RefusedError("repeated", f"a second sketch of child {number} came")
        if not self.counts(number, tag):
            check_same_model(tag, self.tag)

    def take(self, number: int, held: Held) -> None:
        """One more child has computed."""
        self.held[number] = held
        self.vacant.pop(number, None)
        self.changed.set()

    def give_up(self, number: int) -> None:
        """This child computes nothing on the current model that could be used."""
        self.failed.add(number)
        self.changed.set()

    def lacks(self, number: int, why: str) -> None:
        """This child has nobody who could compute for it; it says so at once when somebody has come."""
        self.vacant[number] = why
        self.changed.set()

    def expects(self, number: int) -> None:
        """This child has somebody again, and computes."""
        self.vacant.pop(number, None)
        self.changed.set()

    def all_failed(self, numbers: Iterable[int]) -> bool:
        """Whether all these children compute nothing usable on the current model."""
        seated = set(numbers)  # a roster may be empty for a while, which says nothing of the model
        return bool(seated) and self.failed >= seated

    def most_failed(self, seats: Collection[int]) -> bool:
        """Whether nobody has anything, and of all seats more than half say that the current model allows of nothing.

        A few who say so prove nothing: they may be all that is there just now, and lie. So may an empty roster be.
        """
        return not self.held and 2 * len(self.failed & set(seats)) > len(seats)

    def forget(self, number: int) -> None:
        """Nothing more is known of this child."""
        self.held.pop(number, None)
        self.failed.discard(number)
        self.vacant.pop(number, None)
        self.changed.set()


def mean_sketch(sketches: Iterable[CheckedSketch]) -> tuple[FloatArray, float]:
    """The weighted mean of some children's sketches, in this order, and their weight."""
    chosen = list(sketches)
    weight = sum(sketch.weight for sketch in chosen)
    values = np.zeros_like(chosen[0].values)
    for sketch in chosen:
        values += sketch.weight / weight * sketch.values
    return values, weight


def edge_noise(
    sketches: Sequence[CheckedSketch], mean: FloatArray, chains: Sequence[Uplink], *, backhaul: bool
) -> FloatArray:
    """What each chain [C] would add to an edge's update: at its UEs, and where it is coded again for the `backhaul`.

    UEs add `sum_i share_i^2 var_i`. Nobody has the mean yet that then arrives: its coding is taken to add in the same
    proportion as theirs, `var_i / |u_i|^2` (norms are those of sketches), of what arrives (`training/foretold.py`). A
    chain that feeds errors back adds none.
    """
    if not chains:
        return np.zeros(0)
    weights = np.array([sketch.weight for sketch in sketches])
    random = np.array([not chain.feeds_back for chain in chains])
    shares, noise = weights / weights.sum(), np.where(random, np.stack([sketch.noise for sketch in sketches]), 0.0)
    below = np.square(shares) @ noise
    if not backhaul:
        return np.asarray(below)
    tiny = np.finfo(np.float64).tiny
    given = max(float(shares @ [sketch.values @ sketch.values for sketch in sketches]), tiny)
    squared = max(float(mean @ mean), tiny)
    growth = 1.0 + below / squared
    return np.asarray(below + shares @ noise / given * squared * growth * (1.0 - np.square(shares).sum()))
