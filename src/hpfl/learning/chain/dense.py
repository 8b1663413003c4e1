"""The dense layer: outputs `x W^T + b`, with a delta applied through inner products of rows or as formed weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.chain.weighted import Grams, Weights, formed
from hpfl.learning.shared import LayerRows, SharedRows, as_tensor


@dataclass(frozen=True)
class Dense:
    """A `torch.nn.Linear` over rows [u, n, in]."""

    name: str
    outer_shape: tuple[int, int]  # (out, in)
    has_bias: bool
    grams: Grams | None = None  # of a first layer, whose rows are inputs and stay the same

    def forward(self, rows: LayerRows, weights: Weights, *, bias: bool = True) -> Tensor:
        """Outputs at the base weights."""
        own = weights.bias if bias else None
        if weights.per_ue:
            return _per_ue(as_tensor(rows), weights.weight, own)
        if isinstance(rows, SharedRows):
            return rows.outputs(weights.weight, own)
        return torch.nn.functional.linear(rows, weights.weight, own)

    def backward(self, errors: Tensor, weights: Weights, rows: Tensor) -> Tensor:
        """Errors at the inputs through the base weights."""
        return errors @ weights.weight

    def moved(self, rows: LayerRows, weights: Weights, delta: Delta, *, bias: bool = True) -> Tensor:
        """Outputs at base weights plus delta."""
        if self._by_rows(rows, delta, reverse=False) or not bias:
            return self.along(rows, delta, self.forward(rows, weights, bias=bias), bias=bias)
        weight, own = formed(self, delta)
        both = None if weights.bias is None or own is None else weights.bias + own
        return _per_ue(as_tensor(rows), weights.weight + weight, both)

    def along(self, rows: LayerRows, delta: Delta, onto: Tensor | None, *, bias: bool = True) -> Tensor:
        """`onto` plus outputs by the delta alone."""
        if not self._by_rows(rows, delta, reverse=False):
            weight, own = formed(self, delta)
            result = _onto(onto, as_tensor(rows), weight.mT, 1.0)
            return result + own.unsqueeze(1) if own is not None and bias and self.has_bias else result
        for term in delta.terms:
            onto = _onto(onto, self._gram(rows, term, with_bias=bias), term.right, term.scale)
        assert onto is not None
        return onto

    def back_moved(self, errors: Tensor, weights: Weights, delta: Delta, rows: Tensor) -> Tensor:
        """Errors at the inputs through base weights plus delta."""
        if self._by_rows(errors, delta, reverse=True):
            return self.back_along(errors, delta, self.backward(errors, weights, rows))
        return errors @ (weights.weight + formed(self, delta)[0])

    def back_along(self, errors: Tensor, delta: Delta, onto: Tensor) -> Tensor:
        """`onto` plus the errors at the inputs through the delta alone."""
        if not self._by_rows(errors, delta, reverse=True):
            return torch.baddbmm(onto, errors, formed(self, delta)[0])
        for term in delta.terms:
            onto = torch.baddbmm(onto, errors @ term.right.mT, as_tensor(term.left), alpha=term.scale)
        return onto

    def outer(self, term: Term) -> Tensor:
        """`right^T left` of each UE."""
        return term.right.mT @ as_tensor(term.left)

    def outer_run(self, left: Tensor, right: Tensor, into: Tensor) -> None:
        """Add `right^T left` summed over all UEs and rows."""
        if right.dtype == left.dtype == into.dtype:
            into.addmm_(right.flatten(0, 1).T, left.flatten(0, 1))
        else:  # products are rounded
            into += right.flatten(0, 1).T @ left.flatten(0, 1)

    def known_products(self, terms: Sequence[Term]) -> list[Tensor]:
        """Inner products of all pairs of terms' rows, with 1 for the bias; none, if one is unknown."""
        if self.grams is None:
            return []
        found = [self.grams.find(one.left, other.left) for one in terms for other in terms]
        known = [product for product in found if product is not None]
        return known if len(known) == len(found) else []

    def _gram(self, rows: LayerRows, term: Term, *, with_bias: bool) -> Tensor:
        """Inner products of rows with a term's rows, plus 1 where the bias takes part."""
        known = None if self.grams is None else self.grams.find(rows, term.left)
        if known is not None:
            return known  # kept for the whole round, over inputs, whose terms all carry the bias
        product = as_tensor(rows) @ as_tensor(term.left).mT
        if self.has_bias and term.bias and with_bias:
            product.add_(1)
        if self.grams is not None:
            self.grams.known[id(rows), id(term.left)] = product
        return product

    def _by_rows(self, rows: LayerRows, delta: Delta, *, reverse: bool) -> bool:
        """Whether products of rows cost less than formed weights, counted in multiplications per row."""
        if delta.weight is not None or not delta.terms:
            return False
        out, into = self.outer_shape
        cost, forming = 0, 0
        for term in delta.terms:
            known = not reverse and self.grams is not None and self.grams.find(rows, term.left) is not None
            cost += rows.shape[1] * term.left.shape[1] * (out + (0 if known else into))
            forming += term.left.shape[1] * into * out
        return cost < forming + rows.shape[1] * into * out


def _per_ue(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = rows @ weight.mT
    return product if bias is None else product.add_(bias.unsqueeze(1))


def _onto(onto: Tensor | None, left: Tensor, right: Tensor, scale: float) -> Tensor:
    if onto is None:
        product = left @ right
        return product if scale == 1.0 else product.mul_(scale)
    return torch.baddbmm(onto, left, right, alpha=scale)
