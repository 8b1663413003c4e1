"""A direction in one layer's weights, for every UE of a chunk: a sum of outer products, formed only where it must be.

A UE's gradient in a dense layer is `E^T A` (errors by inputs). Kept as the pair (A, E) it can be applied to other rows
as `x A^T E`, added to another over the same rows for the cost of a sum, and summed over an edge's UEs in one product.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Term:
    """`scale * right^T left` per UE: rows of a layer's inputs [u, n, ...] and of its output errors [u, n, ...]."""

    left: Any  # or rows that UEs share
    right: Tensor
    scale: float = 1.0
    bias: bool = True  # whether the rows of `right` also add to the bias; tangents of inputs do not


class Delta:
    """A sum of terms and of a formed part; forming moves value from the one to the other, never changes it."""

    def __init__(self, terms: tuple[Term, ...] = (), weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        self.terms = terms
        self.weight = weight  # [u, *weight shape], or None for zero
        self.bias = bias  # [u, out], or None for zero

    def plus(self, scale: float, other: "Delta") -> "Delta":
        """`self + scale * other`; terms over the same rows become one."""
        terms = list(self.terms)
        for term in other.terms:
            _merge(terms, term, scale)
        weight = _added(self.weight, scale, other.weight)
        return Delta(tuple(terms), weight, _added(self.bias, scale, other.bias))


def _merge(terms: list[Term], term: Term, scale: float) -> None:
    for place, own in enumerate(terms):
        if own.left is term.left and own.bias == term.bias:
            right = own.right.add(term.right, alpha=scale * term.scale / own.scale)
            terms[place] = Term(own.left, right, own.scale, own.bias)
            return
    terms.append(Term(term.left, term.right, scale * term.scale, term.bias))


def _added(one: Tensor | None, scale: float, other: Tensor | None) -> Tensor | None:
    if other is None:
        return one
    return other * scale if one is None else one.add(other, alpha=scale)
