"""The Gaussian mechanism in closed form: epsilon, delta and the noise for them, after any number of releases.

A release of noise multiplier z (standard deviation over sensitivity) is `mu`-Gaussian differentially private with
`mu = 1 / z`, and releases in turn, each chosen in the light of those before, are so with `sqrt(sum mu^2)`, exactly
(Dong, Roth, Su: *Gaussian Differential Privacy*, JRSS B 2022, corollary 3.3). As an (epsilon, delta) that is
`delta = Phi(mu / 2 - eps / mu) - e^eps Phi(-mu / 2 - eps / mu)` (Balle, Wang, ICML 2018, theorem 8).
"""

import math
from collections.abc import Iterable

_MOST_MU = 1e3  # beyond, epsilon is some 500,000 and says nothing
_NEAR = 1e-13


def mu_of(multipliers: Iterable[float]) -> float:
    """`mu` of releases with these noise multipliers; infinite as soon as one has no noise."""
    squares = [math.inf if z == 0 else z**-2 for z in multipliers]
    return math.sqrt(math.fsum(squares)) if math.inf not in squares else math.inf


def delta_of(epsilon: float, mu: float) -> float:
    """The least delta of a `mu`-Gaussian release at an epsilon."""
    from scipy.special import log_ndtr  # most runs are not private, and SciPy takes long to import

    if mu == 0:
        return 0.0
    if not math.isfinite(mu):
        return 1.0
    inside, beyond = float(log_ndtr(mu / 2 - epsilon / mu)), float(log_ndtr(-mu / 2 - epsilon / mu)) + epsilon
    return max(math.exp(inside) * -math.expm1(min(beyond - inside, 0.0)), 0.0)


def epsilon_of(mu: float, delta: float) -> float:
    """The least epsilon of a `mu`-Gaussian release at a delta; 0 where delta alone covers it."""
    from scipy.optimize import brentq

    if mu > _MOST_MU:
        return math.inf
    if delta_of(0.0, mu) <= delta:
        return 0.0
    most = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)) + 1)  # where the first term alone is below delta
    return float(brentq(lambda epsilon: delta_of(epsilon, mu) - delta, 0.0, most, xtol=_NEAR, rtol=4 * _NEAR))


def noise_multiplier_for(epsilon: float, delta: float, releases: int) -> float:
    """The least noise multiplier with which so many releases stay within (epsilon, delta)."""
    from scipy.optimize import brentq

    def over(log_mu: float) -> float:
        return epsilon_of(math.exp(log_mu), delta) - epsilon

    found = float(brentq(over, math.log(1e-6), math.log(_MOST_MU), xtol=_NEAR))
    return math.sqrt(releases) / math.exp(found) * (1 + 1e-12)
