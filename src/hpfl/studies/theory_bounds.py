"""Lemmas 1 and 2 and Theorem 1 as formulas: as the paper prints them, and as its assumptions really give them."""

from dataclasses import dataclass, fields

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of Assumptions 2 to 4; the paper calls the third one rho, as it does the planner's weight."""

    smoothness: float  # L: how fast a UE's gradient changes with the parameters
    gradient_bound: float  # C: the largest gradient of a UE
    hessian_lipschitz: float  # rho of Assumption 3: how fast a UE's Hessian changes
    gradient_diversity: float  # gamma_G: root mean square distance of UEs' gradients from their mean
    hessian_diversity: float  # gamma_H: the same of Hessians, in the spectral norm

    def joined(self, other: "Constants") -> "Constants":
        """The least constants that serve both."""
        return Constants(
            **{part.name: max(getattr(self, part.name), getattr(other, part.name)) for part in fields(self)}
        )


def printed_smoothness(constants: Constants, inner_lr: float) -> float:
    """`L_F = 4 L + alpha rho C` of Lemma 1, which needs `alpha <= 1 / L` though the lemma does not say so."""
    return 4 * constants.smoothness + inner_lr * constants.hessian_lipschitz * constants.gradient_bound


def meta_smoothness(constants: Constants, inner_lr: float) -> float:
    """`L_F = L (1 + alpha L)^2 + alpha rho C`, for any `alpha`; at most Lemma 1's where `alpha <= 1 / L`.

    `grad F(w) - grad F(u)` is `(I - alpha H(w)) (grad f(theta_w) - grad f(theta_u))`, where `theta` moves at most
    `1 + alpha L` times as far as `w`, less `alpha (H(w) - H(u)) grad f(theta_u)`.
    """
    steepest = constants.smoothness * (1 + inner_lr * constants.smoothness) ** 2
    return steepest + inner_lr * constants.hessian_lipschitz * constants.gradient_bound


def printed_diversity(constants: Constants, inner_lr: float) -> float:
    """`gamma_F = sqrt(3 C^2 alpha^2 gamma_H^2 + 192 gamma_G^2)` of Lemma 2, for `alpha <= 1 / L`."""
    turned = inner_lr * constants.gradient_bound * constants.hessian_diversity
    return float(np.sqrt(3 * turned**2 + 192 * constants.gradient_diversity**2))


def meta_diversity(constants: Constants, inner_lr: float) -> float:
    """`gamma_F = alpha C gamma_H + (1 + alpha L)^2 gamma_G`, for any `alpha`: the triangle inequality in mean square.

    With `theta = w - alpha grad f(w)`, `grad F_i` less the common vector `(I - alpha H) grad f(theta)` is
    `(I - alpha H_i) r_i - alpha (H_i - H) grad f(theta)`, where `r_i = grad f_i(theta_i) - grad f(theta)` is at most
    `alpha L |grad f_i(w) - grad f(w)| + |grad f_i(theta) - grad f(theta)|` long.
    """
    turned = inner_lr * constants.gradient_bound * constants.hessian_diversity
    return turned + (1 + inner_lr * constants.smoothness) ** 2 * constants.gradient_diversity


@dataclass(frozen=True, kw_only=True)
class RunCourse:
    """What happened in rounds `t = 0 .. T-1` of a run with `K` edges; arrays of `T + 1` end with the last model."""

    outer_lr: FloatArray  # [T]: beta, with the planner's own factor
    loss: FloatArray  # [T + 1]: F(w_t)
    gradient_sq: FloatArray  # [T + 1]: |grad F(w_t)|^2
    edge_gradient_sq: FloatArray  # [T + 1, K]: |grad F_k(w_t)|^2
    slope: FloatArray  # [T]: <grad F(w_t), g_t>, where w_{t+1} = w_t - beta g_t
    direction_sq: FloatArray  # [T]: |g_t|^2
    aggregated: BoolArray  # [T, K]
    staleness: IntArray  # [T, K]: tau of the aggregated, 0 elsewhere

    @property
    def change(self) -> FloatArray:
        """`F(w_{t+1}) - F(w_t)` [T]."""
        return np.diff(self.loss)

    @property
    def count(self) -> FloatArray:
        """Edges aggregated in each round [T], 1 where none was so that one may divide by it."""
        return np.asarray(np.maximum(self.aggregated.sum(axis=1), 1), dtype=np.float64)

    @property
    def base_round(self) -> IntArray:
        """The round whose model each aggregated update was computed on, [T, K]."""
        return np.arange(len(self.aggregated))[:, None] - self.staleness

    @property
    def num_bases(self) -> IntArray:
        """How many different models the updates of a round were computed on, [T]."""
        ordered = np.sort(np.where(self.aggregated, self.base_round, -1), axis=1)
        return np.asarray((np.diff(ordered, axis=1) > 0).sum(axis=1) + (ordered[:, 0] >= 0), dtype=np.int64)

    def mean_over_aggregated(self, values: FloatArray) -> FloatArray:
        """Mean of [T, K] over the edges aggregated in each round."""
        return np.asarray(np.where(self.aggregated, values, 0.0).sum(axis=1) / self.count)


def phi(course: RunCourse, staleness_bound: int) -> FloatArray:
    """`5 beta S^2 / A` of Theorem 1 in every round, with the number of edges really aggregated."""
    return 5 * course.outer_lr * staleness_bound**2 / course.count


def nu(course: RunCourse, staleness_bound: int, gamma_f: float) -> FloatArray:
    """`(10 + 5 S^2) beta K gamma_F^2 / A` of Theorem 1 in every round."""
    edges = course.aggregated.shape[1]
    return np.asarray((10 + 5 * staleness_bound**2) * course.outer_lr * edges * gamma_f**2 / course.count)


def printed_bound(course: RunCourse, *, staleness_bound: int, gamma_f: float) -> FloatArray:
    """Theorem 1 as printed: `phi sum_k pi_k |grad F(w_{t - tau_k})|^2 + nu`; it presumes `beta = 1 / L_F`."""
    importance = course.count * course.mean_over_aggregated(course.gradient_sq[course.base_round])
    return phi(course, staleness_bound) * importance + nu(course, staleness_bound, gamma_f)


def smoothness_bound(course: RunCourse, l_f: float) -> FloatArray:
    """What Lemma 1 gives at once: `-beta <grad F(w_t), g_t> + L_F beta^2 |g_t|^2 / 2`, for any step and direction."""
    return -course.outer_lr * course.slope + 0.5 * l_f * course.outer_lr**2 * course.direction_sq


def corrected_bound(course: RunCourse, *, l_f: float, gamma_f: float) -> FloatArray:
    """What the proof of Theorem 1 gives once its steps are put right; for any `beta` (docs/errata.md, row 19).

    `-beta/2 |grad F(w_t)|^2 + beta/2 (beta L_F - 1) |g_t|^2 + beta V K gamma_F^2 / A_t + beta L_F^2 drift`, where `V`
    counts the models that the round's updates were computed on and `drift` bounds how far they lie behind.
    """
    beta, edges = course.outer_lr, course.aggregated.shape[1]
    descent = -0.5 * beta * course.gradient_sq[:-1] + 0.5 * beta * (beta * l_f - 1) * course.direction_sq
    diverse = course.num_bases * edges * gamma_f**2 / course.count
    return np.asarray(descent + beta * diverse + beta * l_f**2 * drift_sq(course))


def drift_sq(course: RunCourse) -> FloatArray:
    """At least the mean over the aggregated of `|w_t - w_{t - tau}|^2`, from the importance of the rounds between.

    `|w_{j+1} - w_j|^2` is at most `beta_j^2` times the mean of `|grad F_k(w_{j - tau})|^2` over the edges of round
    `j`, and the square of a sum of `tau` terms at most `tau` times the sum of their squares.
    """
    edges = np.arange(course.aggregated.shape[1])
    importance = course.mean_over_aggregated(course.edge_gradient_sq[course.base_round, edges])
    moved = np.concatenate([[0.0], np.cumsum(course.outer_lr**2 * importance)])
    since = moved[:-1, None] - moved[course.base_round]
    return course.mean_over_aggregated(course.staleness * since)
