"""Lower bounds on epsilon from guesses: what an auditor can be sure of."""

import numpy as np
from scipy.stats import beta, norm

from hpfl.privacy import epsilon_of


def most(wrong: int, of: int, level: float) -> float:
    """The largest rate of errors that so many are consistent with (Clopper, Pearson, 1934)."""
    return 1.0 if wrong == of else float(beta.ppf(1 - level, wrong + 1, of - wrong))


def epsilon_lower_bound(without: np.ndarray, with_it: np.ndarray, *, delta: float, level: float = 1e-3) -> float:
    """Epsilon that a Gaussian mechanism has at least, from scores without and with the canary.

    The threshold is half-way between the worlds, fixed beforehand by the first halves of the scores; the second halves
    bound the rates alpha and beta of errors, and `mu >= Phi^-1(1 - alpha) - Phi^-1(beta)` (Nasr et al., USENIX
    Security 2023).
    """
    half = len(without) // 2
    threshold = (np.median(without[:half]) + np.median(with_it[:half])) / 2
    alpha = most(int((without[half:] > threshold).sum()), len(without) - half, level / 2)
    missed = most(int((with_it[half:] <= threshold).sum()), len(with_it) - half, level / 2)
    mu = norm.ppf(1 - alpha) - norm.ppf(missed)
    return epsilon_of(float(mu), delta) if mu > 0 else 0.0


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Chance that a member scores above another."""
    return float((members[:, None] > others[None]).mean() + 0.5 * (members[:, None] == others[None]).mean())
