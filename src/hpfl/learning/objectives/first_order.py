"""The first-order personalised gradient: `grad f(theta)`, the Hessian left out."""

from typing import Any

from hpfl.learning.objective import OBJECTIVES, Calculus, LocalTraining, MetaGradient, adapted, meta_gradient


@OBJECTIVES.register("first-order", roles=("support", "query"))
def first_order(calculus: Calculus, start: Any, training: LocalTraining) -> MetaGradient:
    """The outer gradient as it stands at the adapted point."""
    theta, path = adapted(calculus, start, training, keep=False)
    outer = calculus.gradient(theta, "query")
    return meta_gradient(outer.direction, path, outer)
