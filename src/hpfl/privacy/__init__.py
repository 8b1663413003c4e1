"""Differential privacy: what noisy releases tell of one UE, added up, and what a run may spend."""

from hpfl.privacy.accountants import Accountant, AccountantUnavailableError, accountant
from hpfl.privacy.gaussian import delta_of, epsilon_of, mu_of, noise_multiplier_for
from hpfl.privacy.ledger import Ledger

__all__ = [
    "Accountant",
    "AccountantUnavailableError",
    "Ledger",
    "accountant",
    "delta_of",
    "epsilon_of",
    "mu_of",
    "noise_multiplier_for",
]
