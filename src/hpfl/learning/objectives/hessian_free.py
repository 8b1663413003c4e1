"""The Hessian-free personalised gradient: the Hessian-vector product as a central difference of two gradients."""

from typing import Any

from hpfl.learning.objective import OBJECTIVES, Calculus, LocalTraining, MetaGradient, adapted, meta_gradient


@OBJECTIVES.register("hessian-free", differences=True)
def hessian_free(calculus: Calculus, start: Any, training: LocalTraining) -> MetaGradient:
    """`H v = (grad f(w + delta v) - grad f(w - delta v)) / (2 delta)`, on the Hessian batch."""
    theta, path = adapted(calculus, start, training, keep=False)
    outer = calculus.gradient(theta, "query")
    direction, delta = outer.direction, training.hessian_free_delta
    for inner in reversed(path):
        ahead = calculus.gradient(calculus.moved(inner.point, delta, direction), "hessian").direction
        behind = calculus.gradient(calculus.moved(inner.point, -delta, direction), "hessian").direction
        scale = training.inner_lr / (2 * delta)
        direction = calculus.plus(calculus.plus(direction, -scale, ahead), scale, behind)
    return meta_gradient(direction, path, outer)
