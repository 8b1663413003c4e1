"""Runs the round in virtual time; what a clock of one's own needs is here."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.simulation.clock import CLOCKS, Clock, ClockSettings
    from hpfl.simulation.simulated_run import Simulation, build_simulation

__all__ = [
    "CLOCKS",
    "Clock",
    "ClockSettings",
    "Simulation",
    "build_simulation",
]

_KNOWN_BY = {
    "hpfl.simulation.clock": ("CLOCKS", "Clock", "ClockSettings"),
    "hpfl.simulation.simulated_run": ("Simulation", "build_simulation"),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
