"""What is checked of a message before it touches anything: whose it is, what about, and sane numbers."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import VERSION, Tag, Vector, as_numbers

LONGEST_ORDER_S = 86400.0
"""A day: no plan asks anybody to compute, send or wait for longer."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What an honest update never exceeds: its Euclidean norm, and the samples behind one UE.

    Beside others of its round: how many times their median norm and samples it may be, and its share in a mean.
    """

    update_norm: float
    num_samples: int
    norm_ratio: float = 0.0
    sample_ratio: float = np.inf
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class CheckedSketch:
    """A sketch whose numbers are finite, how long it was computed, and the noise [C] that each coding would add.

    An edge's lists its UEs and their samples. `scale` is what the update is multiplied by, as its values were, and
    `num_counted` how many of the samples count. `anew` are UEs that began anew, for nothing is kept of theirs.
    """

    values: FloatArray
    weight: float
    num_samples: int
    ues: IntArray
    samples: IntArray
    took_s: float = 0.0
    noise: FloatArray = field(default_factory=lambda: np.zeros(0))
    scale: float = 1.0
    num_counted: int = 0
    anew: frozenset[int] = frozenset()

    @property
    def norm(self) -> float:
        """About that of the update."""
        return float(np.linalg.norm(self.values))

    def scaled(self, scale: float) -> "CheckedSketch":
        """That of the update times a number."""
        if scale == 1.0:
            return self
        return replace(self, values=self.values * scale, noise=self.noise * scale**2, scale=scale)


def check_hello(hello: Any, *, tag: Tag, name: str) -> None:
    """Refuse other protocols and borrowed names."""
    if hello.version != VERSION:
        raise RefusedError("version", f"protocol version {hello.version} came, wanted {VERSION}")
    check_name(tag, name=name)


def check_name(tag: Tag, *, name: str) -> None:
    """Refuse messages in another's name."""
    if tag.node != name:
        raise RefusedError("identity", f"{tag.node!r} speaks with the certificate of {name!r}")


def check_speaker(tag: Tag, *, name: str, run: str) -> None:
    """Refuse messages in another's name or of another run."""
    check_name(tag, name=name)
    if tag.run != run:
        raise RefusedError("run", f"a message of run {tag.run!r} came, this is run {run!r}")


def check_same_model(tag: Tag, wanted: Tag, *, rounds: bool = False) -> None:
    """Refuse what is about another model (or, with `rounds`, another round) than the one in hand."""
    if not tag.about_same_model(wanted):
        raise RefusedError(
            "stale",
            f"a message about the model of round {tag.base_round}.{tag.edge_round} ({tag.base.hex()[:8]}) came, "
            f"wanted round {wanted.base_round}.{wanted.edge_round} ({wanted.base.hex()[:8]})",
        )
    if rounds and tag.round != wanted.round:
        raise RefusedError("stale", f"a message of round {tag.round} came in round {wanted.round}")


def check_update(vector: Vector, bounds: Bounds) -> float:
    """Refuse an update that is not finite or too large; its squared norm."""
    with np.errstate(over="ignore", invalid="ignore"):
        squared = float(np.dot(vector, vector)) if vector.dtype == np.float64 else _squared_norm(vector)
    if not np.isfinite(squared):
        raise RefusedError("nonfinite", "an update came with an infinite or undefined number")
    if squared > bounds.update_norm**2:
        raise RefusedError(
            "norm", f"an update of norm {squared**0.5:.4g} came, at most {bounds.update_norm:g} is allowed"
        )
    return squared


def check_weight(weight: float, num_samples: int, *, wanted: float, bounds: Bounds) -> None:
    """Refuse a weight that does not follow from the samples declared, and sample counts beyond belief."""
    if not 1 <= num_samples <= bounds.num_samples:
        raise RefusedError("samples", f"{num_samples} samples are declared, wanted 1 to {bounds.num_samples}")
    if not np.isfinite(weight) or abs(weight - wanted) > 1e-9 * abs(wanted):
        raise RefusedError("weight", f"an update of weight {weight} came, wanted {wanted}")


def check_sketch(sketch: Any, *, width: int, largest: float, codings: int = 0) -> CheckedSketch:
    """Refuse a sketch of another width, or with numbers that are not finite, or of a norm above the `largest`.

    With `codings` in the menu, so many noises come with it.
    """
    values, noise = as_numbers(sketch.values, count=width), as_numbers(sketch.noise, count=codings)
    if not np.isfinite(values).all() or not np.isfinite(noise).all() or (noise < 0).any():
        raise RefusedError("nonfinite", "a sketch came with an infinite or undefined number")
    if float(values @ values) > largest**2:
        raise RefusedError(
            "norm", f"a sketch of norm {np.linalg.norm(values):.4g} came, that of no update is above {largest:.4g}"
        )
    if len(sketch.ue) != len(sketch.samples) or len(set(sketch.ue)) != len(sketch.ue):
        raise RefusedError("shape", f"a sketch lists {len(sketch.ue)} UEs and {len(sketch.samples)} sample counts")
    if not 0.0 <= sketch.took_s < np.inf:
        raise RefusedError("nonfinite", f"a sketch that took {sketch.took_s} s came")
    if not (np.isfinite(sketch.weight) and sketch.weight > 0):
        raise RefusedError("weight", f"a sketch of weight {sketch.weight} came, wanted a positive number")
    return CheckedSketch(
        values=values,
        weight=sketch.weight,
        num_samples=int(sketch.num_samples),
        ues=np.array(sketch.ue, dtype=np.int64),
        samples=np.array(sketch.samples, dtype=np.int64),
        took_s=sketch.took_s,
        noise=noise,
        num_counted=int(sketch.num_samples),
        anew=frozenset(sketch.anew),
    )


def check_edge_sketch(
    edge: int, sketch: Any, *, width: int, largest: float, own: Collection[int], most_samples: int, codings: int = 0
) -> CheckedSketch:
    """Refuse an edge's sketch also for UEs that are not its `own`, and for sample counts beyond belief."""
    checked = check_sketch(sketch, width=width, largest=largest, codings=codings)
    if not checked.ues.size or not set(checked.ues.tolist()) <= set(own):
        raise RefusedError("identity", f"edge {edge} lists UEs that are not its own")
    if checked.samples.min() < 1 or checked.samples.max() > most_samples:
        raise RefusedError("samples", f"edge {edge} lists sample counts outside 1 to {most_samples}")
    return replace(checked, anew=checked.anew & frozenset(checked.ues.tolist()))


def check_order(order: Any, ues: Collection[int]) -> None:
    """Refuse an order for UEs that are not one's own, twice for one, or with seconds that nobody waits for."""
    named, lists = len(order.ue), (order.ue_compute_s, order.ue_upload_s, order.ue_counted)
    if any(len(one) != named for one in lists):
        raise RefusedError("shape", f"an order for {named} UEs came with lists of other lengths")
    if len(set(order.ue)) != named or not set(order.ue) <= set(ues):
        raise RefusedError("identity", f"an order for {named} UEs came that are not this node's own")
    once = (order.compute_s, order.upload_s, order.deadline_s, order.phase_deadline_s, order.switch_s)
    for seconds in (*once, *order.ue_compute_s, *order.ue_upload_s):
        if not 0.0 <= seconds <= LONGEST_ORDER_S:
            raise RefusedError("late", f"an order of {seconds:g} s came, wanted 0 to {LONGEST_ORDER_S:g} s")


def _squared_norm(vector: Vector) -> float:
    """In float64 without a copy of the whole vector."""
    parts = np.array_split(vector, max(len(vector) // 65536, 1))
    return float(sum(np.dot(wide, wide) for wide in (part.astype(np.float64) for part in parts)))
