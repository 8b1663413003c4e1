"""Gradients and Hessian-vector products of a chain for a chunk of UEs, layer by layer (Pearlmutter's R-operator)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.free import Free
from hpfl.learning.chain.output import Output
from hpfl.learning.chain.weighted import Weighted, Weights
from hpfl.learning.objective import Gradient, Role

Direction = tuple[Delta, ...]  # one per layer with weights
Point = Direction | None  # None: the start itself


@dataclass(frozen=True)
class Link:
    """A layer with weights and the layers without that follow it."""

    layer: Weighted
    then: tuple[Free, ...]


@dataclass(frozen=True)
class Chain:
    """A feed-forward model: layers without weights over the inputs, then links, then the loss."""

    first: tuple[Free, ...]
    links: tuple[Link, ...]
    output: Output


@dataclass
class Tape:
    """What one forward and backward pass leaves behind, per link."""

    batch: Batch
    rows: list[Tensor] = field(default_factory=list)  # inputs of each layer with weights
    kept: list[list[Any]] = field(default_factory=list)  # of the layers without
    errors: list[Tensor] = field(default_factory=list)  # at the outputs of each layer with weights
    passed: list[list[Tensor]] = field(default_factory=list)  # errors at the outputs of the layers without
    end: Any = None  # what the loss keeps


class ChainCalculus:
    """The calculus of a chunk: points and directions are deltas per layer, over all its UEs at once."""

    def __init__(self, chain: Chain, weights: Sequence[Weights], batches: dict[str, Batch]) -> None:
        self.chain = chain
        self.weights = weights
        self.batches = batches
        self._inputs: dict[int, tuple[Batch, Tensor]] = {}  # by identity; the batch is held, so that it stays its own
        self._at_start: dict[int, Tensor] = {}

    def on(self, batches: dict[str, Batch]) -> "ChainCalculus":
        """The same chunk on other batches; what is known of the inputs stays known."""
        self.batches = batches
        return self

    def gradient(self, point: Point, role: Role, *, keep: bool = False) -> Gradient:
        """Forward and backward pass; the direction is the pair (inputs, errors) of every layer."""
        tape = Tape(self._batch(role))
        outputs = self.forward(point, tape)
        loss, errors, tape.end = self.chain.output.errors(outputs, tape.batch)
        self._backward(point, tape, errors)
        direction = tuple(Delta((Term(a, e),)) for a, e in zip(tape.rows, tape.errors, strict=True))
        return Gradient(point, loss, direction, tape if keep else None)

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
        tangents, pushed, last = self._push(at.point, at.tape, direction)
        errors = self.chain.output.tangents(last, at.tape.batch, at.tape.end)
        return self._pull_tangents(at, direction, (tangents, pushed), errors)

    def forward(self, point: Point, tape: Tape) -> Tensor:
        """Outputs at a point, with what derivatives need written to the tape."""
        rows = self._first(tape.batch)
        for number, link in enumerate(self.chain.links):
            tape.rows.append(rows)
            rows = self._through(number, point, rows)
            tape.kept.append([])
            for free in link.then:
                rows, kept = free.forward(rows)
                tape.kept[-1].append(kept)
        return rows

    def _first(self, batch: Batch) -> Tensor:
        """The inputs of the first layer with weights: the same tensor each time, so that terms over them merge."""
        if id(batch) not in self._inputs:
            rows = batch.inputs
            for free in self.chain.first:
                rows, _ = free.forward(rows)
            self._inputs[id(batch)] = (batch, rows)
            layer = self.chain.links[0].layer
            if batch.gram is not None and isinstance(layer, Dense) and layer.grams is not None:
                layer.grams.known[id(rows), id(rows)] = batch.gram
        return self._inputs[id(batch)][1]

    def _through(self, number: int, point: Point, rows: Tensor) -> Tensor:
        """Outputs of one layer with weights; those of the inputs at the start are computed once for all points."""
        layer, weights = self.chain.links[number].layer, self.weights[number]
        if number > 0:
            return layer.forward(rows, weights) if point is None else layer.moved(rows, weights, point[number])
        if id(rows) not in self._at_start:
            self._at_start[id(rows)] = layer.forward(rows, weights)
        at_start = self._at_start[id(rows)]
        return at_start if point is None else layer.along(rows, point[0], at_start)

    def _backward(self, point: Point, tape: Tape, errors: Tensor) -> None:
        for number in reversed(range(len(self.chain.links))):
            passed = []
            for free, kept in zip(reversed(self.chain.links[number].then), reversed(tape.kept[number]), strict=True):
                passed.append(errors)
                errors = free.pull(errors, kept)
            tape.passed.insert(0, passed[::-1])
            tape.errors.insert(0, errors)
            if number > 0:
                errors = self._back_through(number, point, errors, tape.rows[number])

    def _back_through(self, number: int, point: Point, errors: Tensor, rows: Tensor) -> Tensor:
        layer, weights = self.chain.links[number].layer, self.weights[number]
        if point is None:
            return layer.backward(errors, weights, rows)
        return layer.back_moved(errors, weights, point[number], rows)

    def _push(self, point: Point, tape: Tape, direction: Direction) -> tuple[list[Tensor | None], Any, Tensor]:
        """Tangents at each layer's inputs, at the inputs of the layers without weights, and at the outputs."""
        rows_tangents: list[Tensor | None] = []
        free_tangents: list[list[Tensor]] = []
        tangents: Tensor | None = None
        for number, link in enumerate(self.chain.links):
            rows_tangents.append(tangents)
            through = None if tangents is None else self._tangents_through(number, point, tangents)
            pushed = link.layer.along(tape.rows[number], direction[number], through)
            free_tangents.append([])
            for free, kept in zip(link.then, tape.kept[number], strict=True):
                free_tangents[-1].append(pushed)
                pushed = free.push(pushed, kept)
            tangents = pushed
        assert tangents is not None
        return rows_tangents, free_tangents, tangents

    def _tangents_through(self, number: int, point: Point, tangents: Tensor) -> Tensor:
        layer, weights = self.chain.links[number].layer, self.weights[number]
        if point is None:
            return layer.forward(tangents, weights, bias=False)
        return layer.moved(tangents, weights, point[number], bias=False)

    def _pull_tangents(self, at: Gradient, direction: Direction, pushed: Any, errors: Tensor) -> Direction:
        rows_tangents, free_tangents = pushed
        tape, product = at.tape, []
        for number in reversed(range(len(self.chain.links))):
            link = self.chain.links[number]
            for place in reversed(range(len(link.then))):
                kept, free = tape.kept[number][place], link.then[place]
                bent = free.bend(tape.passed[number][place], free_tangents[number][place], kept)
                errors = free.pull(errors, kept)
                errors = errors if bent is None else errors + bent
            terms: tuple[Term, ...] = (Term(tape.rows[number], errors),)
            if rows_tangents[number] is not None:
                terms += (Term(rows_tangents[number], tape.errors[number], bias=False),)
            product.append(Delta(terms))
            if number > 0:
                onto = self._back_through(number, at.point, errors, tape.rows[number])
                errors = link.layer.back_along(tape.errors[number], direction[number], onto)
        return tuple(reversed(product))

    def _batch(self, role: Role) -> Batch:
        return self.batches.get(role, self.batches["support"])
