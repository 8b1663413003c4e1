"""A model on its way down: named by its digest once, and made into frames once, whoever receives it and what for."""

from dataclasses import dataclass, field
from functools import cached_property

from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Tag, Vector, chunk_frames, digest_of, head_frame


@dataclass(frozen=True)
class NamedModel:
    """A model and the tag of the node that sends it, which names the model."""

    tag: Tag
    vector: Vector
    _heads: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def after(vector: Vector, *, run: str, node: str, round_number: int) -> "NamedModel":
        """The model after `round_number` rounds; the one place where a new model is hashed."""
        base = digest_of(vector)
        return NamedModel(Tag(run=run, round=round_number, base_round=round_number, node=node, base=base), vector)

    def frames(self, purpose: int) -> tuple[bytes, ...]:
        """Its frames; only the first depends on what the model is sent for."""
        if purpose not in self._heads:
            self._heads[purpose] = head_frame(self.tag, self.vector, purpose=purpose)
        return self._heads[purpose], *self._chunks

    @cached_property
    def _chunks(self) -> tuple[bytes, ...]:
        return tuple(chunk_frames(self.tag, self.vector))


def model_of(tag: Tag) -> bytes:
    """The cloud's model that a tag names; nothing where it names an edge's own, of a later edge round."""
    return b"" if tag.edge_round else tag.base


def sound(arrival: Arrival) -> Vector:
    """The model that came, if it is the one its tag names."""
    vector = arrival.vector()
    if digest_of(vector) != arrival.tag.base:
        raise RefusedError("digest", "a model came whose bytes do not match its name")
    return vector
