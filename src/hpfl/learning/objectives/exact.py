"""The exact personalised gradient: `(I - alpha H(w)) grad f(theta)` for one inner step, a product of such for more."""

from typing import Any

from hpfl.learning.objective import OBJECTIVES, Calculus, LocalTraining, MetaGradient, adapted, meta_gradient


@OBJECTIVES.register("exact", twice=True)
def exact(calculus: Calculus, start: Any, training: LocalTraining) -> MetaGradient:
    """Pull the outer gradient back through every inner step with a Hessian-vector product."""
    theta, path = adapted(calculus, start, training, keep=True)
    outer = calculus.gradient(theta, "query")
    direction = outer.direction
    for inner in reversed(path):
        direction = calculus.plus(direction, -training.inner_lr, calculus.hessian_vector(inner, direction))
    return meta_gradient(direction, path, outer)
