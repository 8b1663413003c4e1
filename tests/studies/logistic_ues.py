"""UEs with logistic losses, whose constants are known for all parameters, and a stale hierarchical run of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpfl.studies.theory_bounds import Constants, RunCourse

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Logistic:
    """`f_i(w) = mean_j log(1 + exp(-y_ij <x_ij, w>))` of UEs [N, n, m], `per_edge` of them under each edge."""

    inputs: FloatArray
    signs: FloatArray
    per_edge: int = 2

    @staticmethod
    def draw(seed: int, *, ues: int = 6, samples: int = 4, features: int = 3) -> "Logistic":
        generator = np.random.default_rng(seed)
        inputs = generator.normal(size=(ues, samples, features)) * generator.uniform(0.3, 2.0, size=(ues, 1, 1))
        return Logistic(inputs, generator.choice([-1.0, 1.0], size=(ues, samples)))

    def _chance(self, point: FloatArray) -> FloatArray:
        """Chance of the wrong sign at a point [m], or at one of each UE [N, m]."""
        margins = self.signs * np.einsum("inm,im->in", self.inputs, np.broadcast_to(point, self.inputs[:, 0].shape))
        return 1 / (1 + np.exp(margins))

    def losses(self, point: FloatArray) -> FloatArray:
        return -np.log1p(-self._chance(point)).mean(axis=1)

    def gradients(self, point: FloatArray) -> FloatArray:
        return -np.einsum("in,in,inm->im", self._chance(point), self.signs, self.inputs) / self.signs.shape[1]

    def hessians(self, point: FloatArray) -> FloatArray:
        chance = self._chance(point)
        return np.einsum("in,inm,inl->iml", chance * (1 - chance), self.inputs, self.inputs) / self.signs.shape[1]

    def meta_losses(self, point: FloatArray, alpha: float) -> FloatArray:
        return self.losses(point - alpha * self.gradients(point))

    def meta_gradients(self, point: FloatArray, alpha: float) -> FloatArray:
        outer = self.gradients(point - alpha * self.gradients(point))
        return outer - alpha * np.einsum("iml,il->im", self.hessians(point), outer)

    def by_edge(self, rows: FloatArray) -> FloatArray:
        return rows.reshape(-1, self.per_edge, *rows.shape[1:]).mean(axis=1)

    def constants(self, points: list[FloatArray]) -> Constants:
        """L, C and the Hessian's for all parameters; the diversities at these points."""
        lengths = np.linalg.norm(self.inputs, axis=2)
        gradients = [self.gradients(point) for point in points]
        hessians = [self.hessians(point) for point in points]
        apart = [np.linalg.norm(rows - rows.mean(0), axis=1) for rows in gradients]
        unlike = [np.linalg.norm(rows - rows.mean(0), ord=2, axis=(1, 2)) for rows in hessians]
        return Constants(
            smoothness=float((lengths**2).mean(1).max() / 4),
            gradient_bound=float(lengths.mean(1).max()),
            hessian_lipschitz=float((lengths**3).mean(1).max() / (6 * np.sqrt(3))),
            gradient_diversity=float(max(np.sqrt((norms**2).mean()) for norms in apart)),
            hessian_diversity=float(max(np.sqrt((norms**2).mean()) for norms in unlike)),
        )


def stale_run(ues: Logistic, *, seed: int, alpha: float, beta: float, rounds: int = 12) -> tuple[RunCourse, float]:
    """A run in which random edges are called, each with the model it last received; and `gamma_F` over all edges."""
    generator = np.random.default_rng(seed)
    edges = len(ues.inputs) // ues.per_edge
    models = [generator.normal(size=ues.inputs.shape[2])]
    held = np.zeros(edges, dtype=np.int64)
    columns: dict[str, list[object]] = {name: [] for name in ("slope", "direction_sq", "aggregated", "staleness")}
    for now in range(rounds):
        called = generator.random(edges) < 0.5
        called[generator.integers(edges)] = True
        updates = np.stack([ues.by_edge(ues.meta_gradients(models[held[k]], alpha))[k] for k in range(edges)])
        direction = updates[called].mean(axis=0)
        gradient = ues.meta_gradients(models[now], alpha).mean(axis=0)
        for name, value in zip(columns, (gradient @ direction, direction @ direction, called, now - held), strict=True):
            columns[name].append(np.where(called, value, 0) if name == "staleness" else value)
        models.append(models[now] - beta * direction)
        held[called] = now + 1
    by_edge = np.stack([ues.by_edge(ues.meta_gradients(model, alpha)) for model in models])
    apart = ((by_edge - by_edge.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)
    course = RunCourse(
        outer_lr=np.full(rounds, beta),
        loss=np.array([ues.meta_losses(model, alpha).mean() for model in models]),
        gradient_sq=(by_edge.mean(axis=1) ** 2).sum(axis=1),
        edge_gradient_sq=(by_edge**2).sum(axis=2),
        **{name: np.array(values) for name, values in columns.items()},  # type: ignore[arg-type]
    )
    return course, float(np.sqrt(apart.max()))
