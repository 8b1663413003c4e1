"""Norms of UEs' directions from inner products of activations and errors: no row of a UE's own is formed for them.

A UE's direction in a dense layer is `sum_t s_t R_t^T L_t`, so its squared norm is
`sum_tu s_t s_u <R_t, (L_t L_u^T) R_u>` (Goodfellow, arXiv:1510.01799; Li et al., ICLR 2022, "ghost clipping"). Where
the inner products cost more than the weights themselves, as with small layers, these are formed for a chunk.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.link import Link
from hpfl.learning.chain.weighted import Weighted, error_sum, formed

_PER_NUMBER = 32  # multiplications in the time that a formed number takes to be written, read and added up


def squared_norms(links: Sequence[Link], direction: Sequence[Delta]) -> Tensor:
    """Squared norms [u] of a chunk's directions over all layers, in float64."""
    parts = [_of_layer(link.layer, delta) for link, delta in zip(links, direction, strict=True)]
    return torch.stack(parts).sum(0).clamp_min(0.0)


def _of_layer(layer: Weighted, delta: Delta) -> Tensor:
    if isinstance(layer, Dense) and delta.weight is None and delta.terms and _cheaper(layer, delta.terms):
        return _by_products(layer, delta)
    weight, bias = formed(layer, delta)
    return _square(weight) if bias is None or not layer.has_bias else _square(weight) + _square(bias)


def _by_products(layer: Dense, delta: Delta) -> Tensor:
    """The weights' part by inner products of rows; the bias's is in those that are known, or by sums of errors."""
    terms, known = delta.terms, layer.known_products(delta.terms)
    products = iter(known)
    total = terms[0].right.new_zeros(len(terms[0].right), dtype=torch.float64)
    for one in terms:
        for other in terms:
            product = next(products) if known else one.left @ other.left.mT
            total += (one.scale * other.scale) * _dot(one.right, product @ other.right)
    if known or not layer.has_bias:
        return total
    sums = [error_sum(term.right) * term.scale for term in terms if term.bias]
    sums += [] if delta.bias is None else [delta.bias]
    return total + _square(torch.stack(sums).sum(0)) if sums else total


def _cheaper(layer: Dense, terms: Sequence[Term]) -> bool:
    """Whether inner products cost less than forming the weights does beyond what the sums cost anyway."""
    if terms[0].right.is_cuda:  # where sums form them in any case
        return False
    out, into = layer.outer_shape
    rows = sum(term.right.shape[1] for term in terms)
    return rows**2 * (out + (0 if layer.known_products(terms) else into)) < _PER_NUMBER * out * into


def _dot(one: Tensor, other: Tensor) -> Tensor:
    """Inner products [u] of rows, added up in float64."""
    return (one * other).flatten(1).sum(1, dtype=torch.float64)


def _square(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1, dtype=torch.float64)
    return norms.square()
