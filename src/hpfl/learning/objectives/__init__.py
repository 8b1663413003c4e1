"""The shipped objectives, one small file each."""

from hpfl.learning.objectives import exact, first_order, hessian_free

__all__ = ["exact", "first_order", "hessian_free"]
