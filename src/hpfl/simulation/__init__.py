"""Runs the round in virtual time; what a clock of one's own needs is here."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.simulation.event import EventClock
    from hpfl.simulation.round import RoundClock
    from hpfl.simulation.simulated_run import Simulation, build_simulation
    from hpfl.training.clock import CLOCKS, Clock, ClockMemory, ClockSettings, Marks, Progress, Span, Work

__all__ = [
    "CLOCKS",
    "Clock",
    "ClockMemory",
    "ClockSettings",
    "EventClock",
    "Marks",
    "Progress",
    "RoundClock",
    "Simulation",
    "Span",
    "Work",
    "build_simulation",
]

_KNOWN_BY = {
    "hpfl.simulation.event": ("EventClock",),
    "hpfl.simulation.round": ("RoundClock",),
    "hpfl.training.clock": ("CLOCKS", "Clock", "ClockMemory", "ClockSettings", "Marks", "Progress", "Span", "Work"),
    "hpfl.simulation.simulated_run": ("Simulation", "build_simulation"),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
