"""One layer with weights and the layers without that follow it, in every pass of the calculus."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.chain.free import Free
from hpfl.learning.chain.weighted import Weighted, Weights


@dataclass(frozen=True)
class At:
    """Where a layer's weights stand: at the start, or a delta of every UE away from it."""

    weights: Weights
    delta: Delta | None = None


@dataclass
class Passage:
    """What a forward and a backward pass leave behind at one link."""

    rows: Any  # inputs of the layer with weights, as a tensor or as rows that UEs share
    kept: list[Any] = field(default_factory=list)  # of the layers without
    errors: Any = None  # at the outputs of the layer with weights
    passed: list[Tensor] = field(default_factory=list)  # errors at the outputs of the layers without, last one first
    places: Any = None  # of pooled outputs, where the link pools by itself


@dataclass
class Pushed:
    """The tangents of a forward pass at one link."""

    rows: Tensor | None  # at the inputs of the layer with weights; None: they do not move
    free: list[Tensor] = field(default_factory=list)  # at the inputs of the layers without


@dataclass(frozen=True)
class Link:
    """A layer with weights and the layers without that follow it."""

    layer: Weighted
    then: tuple[Free, ...]

    def at_start(self, rows: Any, weights: Weights) -> Tensor | None:
        """The layer's outputs at the start, worth keeping where only the delta changes; None: not worth it."""
        return self.layer.forward(rows, weights)

    def forward(self, rows: Any, at: At, known: Tensor | None = None) -> tuple[Tensor, Passage]:
        """Outputs at a point; `known` are the layer's outputs at the start."""
        passage = Passage(rows)
        return self._onward(self._outputs(rows, at, known), passage), passage

    def backward(self, errors: Tensor, passage: Passage) -> Delta:
        """The direction of the gradient from the errors at the link's outputs."""
        passage.errors = self._pulled(errors, passage)
        return Delta((Term(passage.rows, passage.errors),))

    def back(self, errors: Any, at: At, passage: Passage) -> Tensor:
        """Errors at the link's inputs from those at the layer's outputs."""
        if at.delta is None:
            return self.layer.backward(errors, at.weights, passage.rows)
        return self.layer.back_moved(errors, at.weights, at.delta, passage.rows)

    def push(self, tangents: Tensor | None, at: At, direction: Delta, passage: Passage) -> tuple[Tensor, Pushed]:
        """Tangents of the outputs along tangents of the inputs and a direction of the weights."""
        pushed = Pushed(tangents)
        through = None if tangents is None else self._tangents_through(tangents, at)
        return self._pushed_on(self.layer.along(passage.rows, direction, through), passage, pushed), pushed

    def pull_tangents(self, errors: Tensor, passage: Passage, pushed: Pushed) -> tuple[Any, Delta]:
        """Tangents of the errors at the layer's outputs, and the link's part of the Hessian-vector product."""
        tangents = self._pulled_tangents(errors, passage, pushed)
        terms: tuple[Term, ...] = (Term(passage.rows, tangents),)
        if pushed.rows is not None:
            terms += (Term(pushed.rows, passage.errors, bias=False),)
        return tangents, Delta(terms)

    def back_tangents(self, tangents: Any, at: At, direction: Delta, passage: Passage) -> Tensor:
        """Tangents of the errors at the link's inputs."""
        onto = self.back(tangents, at, passage)
        return self.layer.back_along(passage.errors, direction, onto)

    def _outputs(self, rows: Any, at: At, known: Tensor | None) -> Tensor:
        if known is not None:
            return known if at.delta is None else self.layer.along(rows, at.delta, known)
        if at.delta is None:
            return self.layer.forward(rows, at.weights)
        return self.layer.moved(rows, at.weights, at.delta)

    def _tangents_through(self, tangents: Tensor, at: At) -> Tensor:
        if at.delta is None:
            return self.layer.forward(tangents, at.weights, bias=False)
        return self.layer.moved(tangents, at.weights, at.delta, bias=False)

    def _onward(self, rows: Tensor, passage: Passage) -> Tensor:
        for free in self.then:
            rows, kept = free.forward(rows)
            passage.kept.append(kept)
        return rows

    def _pulled(self, errors: Tensor, passage: Passage) -> Tensor:
        for free, kept in zip(reversed(self.then), reversed(passage.kept), strict=True):
            passage.passed.append(errors)
            errors = free.pull(errors, kept)
        return errors

    def _pushed_on(self, tangents: Tensor, passage: Passage, pushed: Pushed) -> Tensor:
        for free, kept in zip(self.then, passage.kept, strict=True):
            pushed.free.append(tangents)
            tangents = free.push(tangents, kept)
        return tangents

    def _pulled_tangents(self, errors: Tensor, passage: Passage, pushed: Pushed) -> Tensor:
        for number, free in reversed(list(enumerate(self.then))):
            kept, passed = passage.kept[number], passage.passed[len(self.then) - 1 - number]
            bent = free.bend(passed, pushed.free[number], kept)
            errors = free.pull(errors, kept)
            errors = errors if bent is None else errors + bent
        return errors
