"""How releases of Gaussian noise are added up to an epsilon: the closed form, or Google's `dp-accounting` beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hpfl.privacy.gaussian import epsilon_of, mu_of


class AccountantUnavailableError(Exception):
    """The package of an accountant is not installed."""


@dataclass(frozen=True)
class Accountant:
    """The epsilon of so many releases at one `delta`; each has the noise `multipliers` of what is in it.

    No amplification by sampling is claimed: the cloud shares its band among the UEs that take part, so it knows them.
    """

    multipliers: tuple[float, ...]
    delta: float
    name: str = "exact"

    def epsilon(self, releases: int) -> float:
        """Epsilon after so many releases; infinite without noise, 0 before the first."""
        if releases == 0:
            return 0.0
        if 0.0 in self.multipliers:
            return float("inf")
        return _WAYS[self.name](self.multipliers, releases, self.delta)


def accountant(name: str, multipliers: tuple[float, ...], delta: float) -> Accountant:
    """An accountant by its name, whose package is there."""
    if name != "exact":
        _package()
    return Accountant(multipliers, delta, name)


def _package() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise AccountantUnavailableError(
            'privacy.accountant other than "exact" needs dp-accounting; install it with: pip install "hpfl[privacy]"'
        ) from error
    return dp_accounting


@cache
def _exact(multipliers: tuple[float, ...], releases: int, delta: float) -> float:
    return epsilon_of(mu_of(multipliers) * releases**0.5, delta)


@cache
def _rdp(multipliers: tuple[float, ...], releases: int, delta: float) -> float:
    from dp_accounting import rdp

    return _composed(rdp.RdpAccountant(), multipliers, releases, delta)


@cache
def _pld(multipliers: tuple[float, ...], releases: int, delta: float) -> float:
    from dp_accounting import pld

    return _composed(pld.PLDAccountant(), multipliers, releases, delta)


def _composed(ledger: Any, multipliers: tuple[float, ...], releases: int, delta: float) -> float:
    from dp_accounting import GaussianDpEvent

    for multiplier in multipliers:
        ledger.compose(GaussianDpEvent(multiplier), releases)
    return float(ledger.get_epsilon(delta))


_WAYS: Mapping[str, Callable[[tuple[float, ...], int, float], float]] = {"exact": _exact, "rdp": _rdp, "pld": _pld}
