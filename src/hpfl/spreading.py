"""Where a run computes: in this process, or on the workers of an engine, which is imported when it is asked for."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

import torch

from hpfl.config import ConfigError
from hpfl.learning import make_cohort
from hpfl.simulation.simulated_run import MakeCohort


class Spread(Protocol):
    """Where a run computes that is spread over processes or machines."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a summary says of it."""

    def cohorts(self, note: Callable[[str], None]) -> AbstractContextManager[MakeCohort]:
        """What makes cohorts there, while this lasts."""


SPREADS: Mapping[str, str] = {"ray": "hpfl.clusters.spread:RaySpread"}
"""Engines that spread one run, by name: each is imported when it is asked for."""


def spread_by(engine: str, **options: Any) -> Spread | None:
    """How an engine spreads a run, with what options are given (those that are None are not); None: it stays here."""
    given = {name: value for name, value in options.items() if value is not None}
    if engine in SPREADS:
        made: Spread = resolve_name(SPREADS[engine])(**given)
        return made
    if engine != "local":
        raise ConfigError(f"engine is {engine!r}; wanted local (this process) or {', '.join(SPREADS)}")
    if given:
        name, value = next(iter(given.items()))
        raise ConfigError(
            f"--{name.replace('_', '-')} is {value}, and the engine is 'local', which computes a run in this process; "
            "wanted --engine ray"
        )
    return None


def driver_device(name: str) -> torch.device:
    """Where the driver of a spread run adds up: its workers have the GPUs."""
    if name not in {"auto", "cpu"}:
        raise ConfigError(f"device is {name!r}; workers of an engine are given GPUs by --gpus-per-worker")
    return torch.device("cpu")


@dataclass(frozen=True)
class Where:
    """Where a run computes: on a device of this process, or spread."""

    device: torch.device
    spread: Spread | None

    def cohorts(self, note: Callable[[str], None]) -> AbstractContextManager[MakeCohort]:
        """What makes cohorts, while this lasts."""
        return nullcontext(make_cohort) if self.spread is None else self.spread.cohorts(note)

    @property
    def facts(self) -> dict[str, Any]:
        """What a summary says of it."""
        return {} if self.spread is None else {"spread": dict(self.spread.facts)}
