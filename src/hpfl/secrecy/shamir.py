"""Shamir's secret sharing (Shamir 1979): shares by `shamirs`; many secrets put together at once.

`shamirs` makes the shares. Its `interpolate` computes the Lagrange coefficients anew for each secret (a third of a
second for 67 shares); those who answer are the same for all secrets of a session, so here they are computed once.
"""

import math
import secrets
from collections.abc import Sequence

import shamirs

FIELD = 2**255 - 19
"""The prime field of secrets and shares; each is written as 32 little-endian bytes."""

SHARE_BYTES = 32


def new_secret() -> int:
    """A secret drawn uniformly from the field."""
    return secrets.randbelow(FIELD)


def shared(secret: int, quantity: int, threshold: int) -> list[int]:
    """Shares at the points 1 ... quantity, any `threshold` of which give the secret back."""
    return [one.value for one in shamirs.shares(secret, quantity, modulus=FIELD, threshold=threshold)]


def coefficients(points: Sequence[int]) -> list[int]:
    """Lagrange's coefficients at 0: the secret is sum_i coefficient_i * share_i, for shares at these points."""
    if len(set(points)) < len(points) or not all(0 < point < FIELD for point in points):
        raise ValueError("points must be different and lie in the field, beyond 0")
    whole, found = math.prod(points), []
    for one in points:
        below = math.prod([other - one for other in points if other != one])
        found.append(whole // one * pow(below, -1, FIELD) % FIELD)
    return found


def combined(weights: Sequence[int], shares: Sequence[int]) -> int:
    """The secret whose shares, in the order of the points, meet the coefficients of these points."""
    return sum(weight * share for weight, share in zip(weights, shares, strict=True)) % FIELD
