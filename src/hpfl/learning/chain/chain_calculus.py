"""Gradients and Hessian-vector products of a chain for a chunk of UEs, layer by layer (Pearlmutter's R-operator)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.chain.delta import Delta
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.free import Free
from hpfl.learning.chain.link import At, Link, Passage
from hpfl.learning.chain.output import Output
from hpfl.learning.chain.weighted import Weights
from hpfl.learning.objective import Gradient, Role

Direction = tuple[Delta, ...]  # one per layer with weights
Point = Direction | None  # None: the start itself


@dataclass(frozen=True)
class Chain:
    """A feed-forward model: layers without weights over the inputs, then links, then the loss."""

    first: tuple[Free, ...]
    links: tuple[Link, ...]
    output: Output

    def entering(self, inputs: Tensor) -> Tensor:
        """What the first layer with weights sees of inputs [u, n, ...]; no parameter has a say in it."""
        for free in self.first:
            inputs, _ = free.forward(inputs)
        return inputs


@dataclass
class Tape:
    """What one forward and backward pass leaves behind."""

    batch: Batch
    passages: list[Passage] = field(default_factory=list)  # one per link
    end: Any = None  # what the loss keeps


class ChainCalculus:
    """The calculus of a chunk: points and directions are deltas per layer, over all its UEs at once."""

    def __init__(self, chain: Chain, weights: Sequence[Weights], batches: dict[str, Batch]) -> None:
        self.chain = chain
        self.weights = weights
        self.batches = batches
        self._inputs: dict[int, tuple[Batch, Any]] = {}  # by identity; the batch is held, so that it stays its own
        self._at_start: dict[int, Tensor | None] = {}

    def on(self, batches: dict[str, Batch]) -> "ChainCalculus":
        """The same chunk on other batches; what is known of the inputs stays known."""
        self.batches = batches
        return self

    def gradient(self, point: Point, role: Role, *, keep: bool = False) -> Gradient:
        """Forward and backward pass; the direction of a dense layer is the pair of its inputs and errors."""
        tape = Tape(self._batch(role))
        outputs = self.forward(point, tape)
        loss, errors, tape.end = self.chain.output.errors(outputs, tape.batch)
        return Gradient(point, loss, self._backward(point, tape, errors), tape if keep else None)

    def moved(self, point: Point, scale: float, direction: Direction) -> Point:
        """`point + scale * direction`."""
        start = point or tuple(Delta() for _ in direction)
        return self.plus(start, scale, direction)

    def plus(self, direction: Direction, scale: float, other: Direction) -> Direction:
        """`direction + scale * other`."""
        return tuple(one.plus(scale, two) for one, two in zip(direction, other, strict=True))

    def hessian_vector(self, at: Gradient, direction: Direction) -> Direction:
        """Tangents of a forward and backward pass along a direction."""
        if self._batch("hessian") is not at.tape.batch:
            at = self.gradient(at.point, "hessian", keep=True)
        pushed, tangents = [], None
        for number, (link, passage) in enumerate(self._links(at.tape)):
            tangents, own = link.push(tangents, self._at(number, at.point), direction[number], passage)
            pushed.append(own)
        assert tangents is not None
        errors = self.chain.output.tangents(tangents, at.tape.batch, at.tape.end)
        return self._pull_tangents(at, direction, pushed, errors)

    def forward(self, point: Point, tape: Tape) -> Tensor:
        """Outputs at a point, with what derivatives need written to the tape."""
        rows = self._first(tape.batch)
        for number, link in enumerate(self.chain.links):
            known = self._known(rows) if number == 0 else None
            rows, passage = link.forward(rows, self._at(number, point), known)
            tape.passages.append(passage)
        outputs: Tensor = rows.to(tape.batch.weights.dtype)
        return outputs  # a loss of few digits would help nobody

    def _first(self, batch: Batch) -> Any:
        """The inputs of the first layer with weights: the same tensor each time, so that terms over them merge."""
        if id(batch) not in self._inputs:
            rows = self.chain.entering(batch.inputs) if batch.shared is None else batch.shared
            self._inputs[id(batch)] = (batch, rows)
            layer = self.chain.links[0].layer
            gram = batch.gram if batch.shared is None else batch.shared.products()
            if gram is not None and isinstance(layer, Dense) and layer.grams is not None:
                layer.grams.known[id(rows), id(rows)] = gram
        return self._inputs[id(batch)][1]

    def _known(self, rows: Any) -> Tensor | None:
        """The first layer's outputs at the start, computed once for all points."""
        if id(rows) not in self._at_start:
            self._at_start[id(rows)] = self.chain.links[0].at_start(rows, self.weights[0])
        return self._at_start[id(rows)]

    def _backward(self, point: Point, tape: Tape, errors: Tensor) -> Direction:
        direction = []
        for number, (link, passage) in reversed(list(enumerate(self._links(tape)))):
            direction.append(link.backward(errors, passage))
            if number > 0:
                errors = link.back(passage.errors, self._at(number, point), passage)
        return tuple(reversed(direction))

    def _pull_tangents(self, at: Gradient, direction: Direction, pushed: Any, errors: Tensor) -> Direction:
        product = []
        for number, (link, passage) in reversed(list(enumerate(self._links(at.tape)))):
            tangents, part = link.pull_tangents(errors, passage, pushed[number])
            product.append(part)
            if number > 0:
                errors = link.back_tangents(tangents, self._at(number, at.point), direction[number], passage)
        return tuple(reversed(product))

    def _links(self, tape: Tape) -> list[tuple[Link, Passage]]:
        return list(zip(self.chain.links, tape.passages, strict=True))

    def _at(self, number: int, point: Point) -> At:
        return At(self.weights[number], None if point is None else point[number])

    def _batch(self, role: Role) -> Batch:
        return self.batches.get(role, self.batches["support"])
