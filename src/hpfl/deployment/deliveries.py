"""What passes between the cloud's streams and its rounds: models down, held and delivered updates up."""

from dataclasses import dataclass

from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.wire import Tag, Vector, digest_of, vector_frames


class NobodyError(RuntimeError):
    """No edge has come for longer than a cloud's patience."""


class StoppedError(RuntimeError):
    """A stop was asked for while the cloud was waiting."""


@dataclass(frozen=True)
class Model:
    """A model on its way down: made into frames once, whoever receives it."""

    tag: Tag
    vector: Vector
    frames: tuple[bytes, ...]

    @staticmethod
    def of(vector: Vector, *, run: str, node: str, round_number: int, purpose: int) -> "Model":
        """The model after `round_number` rounds."""
        base = digest_of(vector)
        tag = Tag(run=run, round=round_number, base_round=round_number, node=node, base=base)
        return Model(tag, vector, tuple(vector_frames(tag, vector, purpose=purpose)))


@dataclass(frozen=True)
class Held:
    """What an edge has ready: the model its update was computed on, and the update's sketch."""

    tag: Tag
    sketch: CheckedSketch


@dataclass(frozen=True)
class Delivered:
    """An edge's update as it came."""

    base_round: int
    update: Vector
    weight: float
    squared_norm: float
    ues: list[int]
    ue_seconds: list[float]
    seconds: float
