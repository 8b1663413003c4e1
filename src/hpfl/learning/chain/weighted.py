"""What the layers with weights share: base weights, formed deltas, and sums of outer products over groups."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.deferred import DeferredPart
from hpfl.learning.engine import Sums
from hpfl.learning.shared import SharedRows, as_tensor


@dataclass(frozen=True)
class Weights:
    """One layer's weights at the start: shared by all UEs, or with a leading UE dimension."""

    weight: Tensor
    bias: Tensor | None
    per_ue: bool


@dataclass
class Grams:
    """Inner products of input rows [u, n, m] already known, by the two tensors they belong to."""

    known: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def find(self, rows: Any, left: Any) -> Tensor | None:
        """The products of two tensors of rows, if they are known."""
        return self.known.get((id(rows), id(left)))


class Weighted(Protocol):
    """A layer with weights; rows are [u, n, ...], errors the derivative by its outputs."""

    @property
    def name(self) -> str:
        """Of the submodule."""

    @property
    def outer_shape(self) -> tuple[int, ...]:
        """Of the weight."""

    @property
    def has_bias(self) -> bool:
        """Whether there is one."""

    def forward(self, rows: Tensor, weights: Weights, *, bias: bool = True) -> Tensor:
        """Outputs at the base weights."""

    def backward(self, errors: Tensor, weights: Weights, rows: Tensor) -> Tensor:
        """Errors at the inputs `rows` through the base weights."""

    def moved(self, rows: Tensor, weights: Weights, delta: Delta, *, bias: bool = True) -> Tensor:
        """Outputs at base weights plus delta."""

    def along(self, rows: Tensor, delta: Delta, onto: Tensor | None) -> Tensor:
        """`onto` plus outputs by the delta alone, its bias included."""

    def back_moved(self, errors: Tensor, weights: Weights, delta: Delta, rows: Tensor) -> Tensor:
        """Errors at the inputs through base weights plus delta."""

    def back_along(self, errors: Tensor, delta: Delta, onto: Tensor) -> Tensor:
        """`onto` plus the errors at the inputs through the delta alone."""

    def outer(self, term: Term) -> Tensor:
        """`right^T left` of each UE, [u, *weight shape]."""

    def outer_run(self, left: Tensor, right: Tensor, into: Tensor) -> None:
        """Add `right^T left` summed over all UEs and rows to a weight [*weight shape]."""


def formed(layer: Weighted, delta: Delta) -> tuple[Tensor, Tensor | None]:
    """The delta as weights and bias of every UE."""
    for term in delta.terms:
        outer = layer.outer(term)
        if delta.weight is None:
            delta.weight = outer if term.scale == 1.0 else outer.mul_(term.scale)
        else:
            delta.weight = delta.weight.add(outer, alpha=term.scale)
        if term.bias:
            own = error_sum(term.right)
            delta.bias = own * term.scale if delta.bias is None else delta.bias.add(own, alpha=term.scale)
    delta.terms = ()
    assert delta.weight is not None
    return delta.weight, delta.bias


def error_sum(errors: Tensor) -> Tensor:
    """Errors added up over a UE's rows (and places of an image): the gradient by the bias, [u, out]."""
    return errors.sum(1) if errors.ndim == 3 else errors.sum((1, *range(3, errors.ndim)))


@dataclass(frozen=True)
class Slots:
    """Where a layer's weight and bias lie in the flat vector."""

    weight: slice
    bias: slice | None


def add_to_groups(layer: Weighted, delta: Delta, slots: Slots, sums: Sums) -> None:
    """Add a chunk's directions in one layer to the sums of its groups."""
    waits = sums.deferred is not None and all(isinstance(term.left, SharedRows) for term in delta.terms)
    if sums.per_ue is not None or (sums.total.is_cuda and not waits):  # a GPU prefers one product to one per group
        formed(layer, delta)
    for term in delta.terms:
        _add_term(layer, term, slots, sums)
    if delta.weight is not None:
        sums.add(delta.weight.flatten(1), slots.weight)
    if delta.bias is not None and slots.bias is not None:
        sums.add(delta.bias, slots.bias)


def _add_term(layer: Weighted, term: Term, slots: Slots, sums: Sums) -> None:
    right = term.right * (sums.shares * term.scale).view(-1, *[1] * (term.right.ndim - 1))
    if sums.deferred is not None and isinstance(term.left, SharedRows):
        runs = tuple((sums.first + group, first, end) for group, first, end in sums.runs)
        sums.deferred.add(slots.weight, DeferredPart(term.left, right, runs))
    else:
        left = as_tensor(term.left)
        for group, first, end in sums.runs:
            into = sums.total[group, slots.weight].view(layer.outer_shape)
            layer.outer_run(left[first:end], right[first:end], into)
    if term.bias and slots.bias is not None:
        sums.add(error_sum(term.right) * term.scale, slots.bias)
