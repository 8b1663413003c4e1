"""What the cloud can tell of the loss before any upload, from the sketches of all pending updates.

All in units of the outer step beta, which need not be known: a step along `m` lowers the loss by about
`beta (s <g, m> - q s^2 |m|^2 / 2)`, with `q = beta L`. Gradients measured before and after known steps give `q`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.planning.problem import BoolArray, FloatArray, Memory, RoundProblem

_KEPT = 0.8  # of what earlier rounds say about the curvature, from one round to the next
_ALARM = 16.0  # growth of |g|^2 over its least that counts as divergence
_RECOVERY = 1.1  # by which the ceiling of the step rises in a calm round
_EDGES, _PATH, _BEND, _REACH, _LEAST, _CEILING = "edges", "path", "bend", "reach", "least", "ceiling"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sketches of the pending updates [K, d] and of `grad F` at the current model [d], and what they tell.

    `curvature` is `q = beta L`; `noise_scale` the noise between edges over the signal, `sigma^2 / |grad F|^2`: the number
    of edges whose mean carries as much noise as signal. `ceiling` is the largest step that is safe after a divergence.
    """

    updates: FloatArray
    gradient: FloatArray
    curvature: float
    noise_scale: float
    ceiling: float

    def gain(self, sets: BoolArray, *, whole_step: bool = False) -> tuple[FloatArray, FloatArray]:
        """Expected decrease of the loss over beta for each row of `sets`, and the step scale that gives it."""
        mean = sets @ self.updates / sets.sum(axis=1)[:, None]
        slope, drag = mean @ self.gradient, self.curvature * (mean**2).sum(axis=1)
        step = np.full(slope.shape, self.ceiling)
        if not whole_step:
            best = np.divide(slope, drag, out=np.where(slope > 0, np.inf, 0.0), where=drag > 0)
            step = np.clip(best, 0.0, self.ceiling)
        return step * slope - 0.5 * step**2 * drag, step


def estimate(problem: RoundProblem, memory: Memory) -> tuple[Estimate, Memory]:
    """The state of the loss, and the memory that knows this round's updates.

    A pending update computed `tau` rounds ago is the gradient of a model that has moved since: `u_k - q (moved)` is what
    it would be now, if the curvature were the same in all directions. Without sketches all updates are taken to point
    the same way.
    """
    updates = np.sqrt(problem.importance)[:, None] if problem.sketches is None else problem.sketches
    names = problem.edge_ids or tuple(str(edge) for edge in range(problem.num_edges))
    path = np.asarray(memory.get(_PATH, np.zeros(updates.shape[1])))
    if path.size != updates.shape[1]:
        memory, path = {}, np.zeros(updates.shape[1])
    known = memory.get(_EDGES, {})
    bend, reach = _KEPT * float(memory.get(_BEND, 0.0)), _KEPT * float(memory.get(_REACH, 0.0))
    travelled = np.zeros_like(updates)
    edges: dict[str, Any] = {}
    for edge, name in enumerate(names):
        before = known.get(name)
        if before is not None and problem.staleness[edge] > 0:
            travelled[edge] = path - np.asarray(before["path"])
            edges[name] = {"update": updates[edge].tolist(), "path": before["path"]}
            continue
        if before is not None:
            moved = path - np.asarray(before["path"])
            bend += float((np.asarray(before["update"]) - updates[edge]) @ moved)
            reach += float(moved @ moved)
        edges[name] = {"update": updates[edge].tolist(), "path": path.tolist()}
    curvature = max(bend / reach, 0.0) if reach > 0 else 0.0
    now = updates - curvature * travelled
    gradient = now.mean(axis=0)
    signal = float(gradient @ gradient)
    least, ceiling = _watched(memory, signal)
    noise = float(((now - gradient) ** 2).sum()) / max(len(names) - 1, 1)
    kept = {_EDGES: edges, _PATH: path.tolist(), _BEND: bend, _REACH: reach, _LEAST: least, _CEILING: ceiling}
    found = Estimate(
        updates=updates,
        gradient=gradient,
        curvature=curvature,
        noise_scale=noise / signal if signal > 0 else 0.0,
        ceiling=ceiling,
    )
    return found, kept


def moved(memory: Mapping[str, Any], step: FloatArray) -> Memory:
    """The memory after the model has moved by `-beta step`."""
    return {**memory, _PATH: (np.asarray(memory[_PATH]) + step).tolist()}


def _watched(memory: Memory, signal: float) -> tuple[float, float]:
    """The least `|g|^2` so far and the step's ceiling: halved while `|g|^2` is far above it, else rising towards 1."""
    least = min(float(memory.get(_LEAST, signal)), signal)
    ceiling = float(memory.get(_CEILING, 1.0))
    alarmed = signal > _ALARM * least
    return least, 0.5 * ceiling if alarmed else min(1.0, _RECOVERY * ceiling)
