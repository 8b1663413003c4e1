"""The noise that an edge adds to what leaves its cell: to the mean of sketches first, then to the mean of updates.

Both are one release where the same UEs are in both: the noise of the update is drawn first, and the sketch has the
sketch of it. Where a UE has gone in between, the difference of the two would show what it had sent. Then the mean of
updates has noise of its own, as if nothing had been in it, and counts as another release.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hpfl.arrays import FloatArray
from hpfl.deployment.secret_draws import SecretDraws, about
from hpfl.deployment.wire import Tag, Vector
from hpfl.training.private_cells import CellPrivacy


@dataclass
class CellNoise:
    """That of edge `number`, for updates of `length` numbers; `sketch` makes the sketch of a vector."""

    private: CellPrivacy
    number: int
    length: int
    sketch: Callable[[Vector], FloatArray]
    key: Callable[[], bytes]
    _sketched: frozenset[int] = field(default_factory=frozenset)
    _noise: Vector | None = None

    def sketched(self, tag: Tag, mean: FloatArray, ues: Collection[int]) -> FloatArray:
        """The mean of the sketches of some UEs, with the sketch of the noise that their updates will have."""
        self._sketched = frozenset(ues)
        self._noise = self._drawn("edge", tag, ues, mean, self._lacking(len(ues)))
        return mean if self._noise is None else mean + self.sketch(self._noise)

    def delivered(self, tag: Tag, mean: Vector, ues: Collection[int]) -> Vector:
        """The mean of the updates of some UEs with its noise."""
        noise = self._noise
        if frozenset(ues) != self._sketched:
            noise = self._drawn("edge/again", tag, ues, mean, 1.0)
        return mean if noise is None else mean + noise

    def _lacking(self, count: int) -> float:
        """Of the variance, the share that UEs have not added."""
        if self.private.noise_at == "edge":
            return 1.0
        return max(0.0, 1.0 - count / int(self.private.planned[self.number]))

    def _drawn(self, kind: str, tag: Tag, ues: Collection[int], mean: Vector, lacking: float) -> Vector | None:
        spread = self.private.noise_multiplier * self.private.clip_norm / len(ues) * lacking**0.5
        if not spread:
            return None
        draws = SecretDraws(self.key(), about(kind, tag, ues, mean))
        places = self.private.places
        numbers = self.length if places is None else len(places)
        return self.private.spread(spread * draws.standard_normal(numbers), self.length)
