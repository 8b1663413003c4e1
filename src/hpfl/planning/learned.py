"""What the cloud learns of the loss from the updates that arrive, without asking anybody for more (docs/fastest.md).

All in units of the outer step beta: a move `p` along the gradient `g` lowers the loss by about `beta (<g, p> - q |p|^2
/ 2)`, with `q = beta L`. The round leaves sketches of the arrived updates and of the model's move in the planner's
memory; the cloud makes them itself, so they cost nothing on the air. An update is its edge's gradient plus the noise of
its coding, whose variance was known before it was coded; all squares here are rid of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.problem import APPLIED, ARRIVED, Memory

_KEPT = 0.7  # of what earlier rounds say about signal, spread and curvature, from one round to the next
_LEAST_SIGNAL = 0.05  # of the squared mean, below which what is left after subtracting noise counts as noise itself
_LOWEST = 1 / 64  # below which halving does not bring the ceiling, so that false alarms pass
_RECOVERY = 1.05  # by which the ceiling rises in every round without an alarm
_FORGIVEN = 0.02  # of all the loss has fallen, how much it may rise again before that is an alarm
_LAST, _MOVED, _PLANNED, _NOISE = "last", "moved", "planned", "noise"
_SIGNAL, _SPREAD, _BEND, _REACH, _LATEST = "signal", "spread", "bend", "reach", "latest"
_RISE, _LOSS, _LEAST, _CEILING = "rise", "loss", "least", "ceiling"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What is known before a plan.

    `signal` is `|grad F|^2`, `spread` is `sigma^2`, the mean squared distance of an edge's gradient from the mean of
    all; both are 0 while nothing has arrived. `curvature` is `q` along recent moves, noise and all. `ceiling` is the
    longest step that is safe after a divergence.
    """

    signal: float = 0.0
    spread: float = 0.0
    curvature: float = 0.0
    ceiling: float = 1.0

    @property
    def noise_scale(self) -> float | None:
        """Spread over signal: the number of edges whose mean carries as much noise as signal; None: not known."""
        return self.spread / self.signal if self.signal > 0 else None

    def longest(self, noise: FloatArray | float) -> FloatArray:
        """The step for moves with so much noise of coding, over the signal: `min(ceiling, 1 / (q (1 + noise)))`.

        That is where `s - q s^2 (1 + noise) / 2` is greatest; twice as long a step swings and gains nothing.
        """
        steep = self.curvature * (1.0 + np.asarray(noise, dtype=np.float64))
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(self.ceiling, np.where(steep > 0, 1.0 / steep, np.inf)))


def learn(memory: Memory) -> tuple[Learned, Memory]:
    """What is known now, and the memory that has taken in what arrived of the last plan."""
    memory = dict(memory)
    memory.pop(APPLIED, None)
    arrived, planned = memory.pop(ARRIVED, None), memory.pop(_PLANNED, None)
    if arrived and arrived["updates"] and planned is not None:
        memory = _taken_in(memory, arrived, planned)
    known = Learned(
        signal=float(memory.get(_SIGNAL, 0.0)),
        spread=float(memory.get(_SPREAD, 0.0)),
        curvature=_curvature(memory),
        ceiling=float(memory.get(_CEILING, 1.0)),
    )
    return known, memory


def intended(memory: Memory, *, step: float, noise: float, num_edges: int, alone: bool = False) -> Memory:
    """The memory of a plan: its step, the coding variance of one of its updates, and how many edges there are.

    Where it counts `alone`, what it will tell of signal and spread replaces all that earlier rounds have told.
    """
    return {**memory, _PLANNED: {"step": step, "noise": noise, "edges": num_edges, "alone": alone}}


def _curvature(memory: Memory) -> float:
    """The mean over recent moves, or that of the last one if it is larger: steps that are too long blow up fast."""
    if not memory.get(_REACH, 0.0) > 0:
        return 0.0
    return max(float(memory[_BEND]) / float(memory[_REACH]), float(memory.get(_LATEST, 0.0)), 0.0)


def _taken_in(memory: dict[str, Any], arrived: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
    """The memory once a round's updates are known: squares, curvature over the move before, and the move now made."""
    noise, step = float(planned["noise"]), float(planned["step"])
    now = {name: np.asarray(sketch) for name, sketch in arrived["updates"].items()}
    if planned["alone"]:
        memory = {name: value for name, value in memory.items() if name not in (_SIGNAL, _SPREAD)}
    memory |= _squares(memory, np.array(list(now.values())), noise, int(planned["edges"]))
    if memory.get(_LAST):
        memory |= _bent(memory, now)
    memory[_LAST] = {name: sketch.tolist() for name, sketch in now.items()}
    memory[_MOVED], memory[_NOISE] = list(arrived["moved"]), step * noise / len(now)
    return memory


def _squares(memory: Memory, updates: FloatArray, noise: float, num_edges: int) -> dict[str, float]:
    """Signal and spread of one round's updates [n, d], joined with those of earlier rounds.

    The sample variance is `sigma^2` plus the coding's; the squared mean is the signal, plus `sigma^2 (1/n - 1/K)`, plus
    an n-th of the coding's. One update alone tells nothing of the spread, which then stays what it was.
    """
    n, mean = len(updates), updates.mean(axis=0)
    spread = float(memory.get(_SPREAD, 0.0))
    if n > 1:
        found = max(float(((updates - mean) ** 2).sum()) / (n - 1) - noise, 0.0)
        spread = _KEPT * spread + (1.0 - _KEPT) * found if _SPREAD in memory else found
    squared = float(mean @ mean)
    left = squared - spread * max(1.0 / n - 1.0 / num_edges, 0.0) - noise / n
    found = max(left, _LEAST_SIGNAL * squared)
    signal = _KEPT * float(memory[_SIGNAL]) + (1.0 - _KEPT) * found if _SIGNAL in memory else found
    return {_SIGNAL: signal, _SPREAD: spread}


def _bent(memory: Memory, now: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Curvature along the last move, and whether the loss rose over it, by the edges that came both times.

    The move contains the coding noise of the updates it was made of, which its product with these would take for
    curvature: that much is subtracted.
    """
    both = [name for name in now if name in memory[_LAST]]
    then = np.mean([memory[_LAST][name] for name in both or memory[_LAST]], axis=0)
    here = np.mean([now[name] for name in both or now], axis=0)
    move = np.asarray(memory[_MOVED])
    reach, before, after = float(move @ move), float(then @ move) - float(memory[_NOISE]), float(here @ move)
    bend = {_BEND: memory.get(_BEND, 0.0), _REACH: memory.get(_REACH, 0.0)}
    if both and reach > 0:
        bend = {_BEND: _KEPT * bend[_BEND] + before - after, _REACH: _KEPT * bend[_REACH] + reach}
        bend[_LATEST] = (before - after) / reach
    return {**bend, **_watched(memory, -0.5 * (before + after))}


def _watched(memory: Memory, change: float) -> dict[str, float]:
    """The step's ceiling after the loss changed by about so much: halved where it has been rising of late.

    An alarm is a rise over some rounds of more than a fiftieth of what the loss has fallen in all; else the ceiling
    rises towards 1. Long steps swing, and so does the loss while it falls.
    """
    rise = _KEPT * float(memory.get(_RISE, 0.0)) + change
    loss = float(memory.get(_LOSS, 0.0)) + change
    least = min(float(memory.get(_LEAST, 0.0)), loss)
    ceiling = float(memory.get(_CEILING, 1.0))
    alarmed = change > 0 and rise > _FORGIVEN * -least
    ceiling = max(0.5 * ceiling, _LOWEST) if alarmed else min(1.0, _RECOVERY * ceiling)
    return {_RISE: rise, _LOSS: loss, _LEAST: least, _CEILING: ceiling}
