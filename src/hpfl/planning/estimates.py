"""What the cloud can tell of the loss before any upload, from the sketches of all pending updates (docs/fastest-v1.md).

All in units of the outer step beta, which need not be known: a step `s` along `m` lowers the loss by about
`beta (s <g, m> - q s^2 |m|^2 / 2)`, with `q = beta L`. Gradients measured before and after known steps give `q`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.problem import APPLIED, Memory, RoundProblem

_KEPT = 0.8  # of what earlier rounds say about the curvature and the loss, from one round to the next
_TRUSTED = 1.0  # curvature above which the step is not shortened further: beta is taken to suit the mean of all edges
_SHARPLY = 8  # power of the curvature, at most 1: noise counts near the edge of stability, else later rounds undo it
_OWED = 0.95  # of what earlier rounds left out, from one round to the next: old debts fade with the model they meant
_UNPAID = 1 / 3  # share of the noise between edges that paying debts does not undo in later rounds
_LOWEST = 1 / 64  # below which halving does not bring the ceiling, so that false alarms pass; nor does a step pay debts
_STEEPEST = 1e4  # curvature above which the ceiling is not lowered further
_RECOVERY = 1.05  # by which that ceiling rises in every round without an alarm
_FORGIVEN = 0.02  # of all the loss has fallen, how much it may rise again before that is an alarm
_FARTHEST = 10.0  # times as far as usual that a step may move the model; one that would go further goes as far as usual
_TINY = 1e-300
_EDGES, _PATH, _DEBT, _BEND, _REACH = "edges", "path", "debt", "bend", "reach"
_RISE, _LOSS, _LEAST, _CEILING, _GRADIENT, _STEP = "rise", "loss", "least", "ceiling", "gradient", "step"
_STRIDE, _PLANNED = "stride", "planned"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sketches of the pending updates [K, d] and of `grad F` at the current model [d], and what they tell.

    `curvature` is `q = beta L`; `noise` is `sigma^2`, the mean squared distance of an edge's update from the mean of
    all. `debt` is what the steps of earlier rounds left out of the mean of all edges. `ceiling` is the largest
    step that is safe after a divergence, and `stride` how far steps moved the model of late, over beta (infinite before
    the first). A `blind` estimate has no sketches, only norms; an `unpriced` one thinks an old update as good
    as a new one.
    """

    updates: FloatArray
    gradient: FloatArray
    debt: FloatArray
    curvature: float
    noise: float
    ceiling: float
    stride: float = math.inf
    blind: bool = False
    unpriced: bool = False

    @property
    def signal(self) -> float:
        """`|grad F|^2`."""
        return float(self.gradient @ self.gradient)

    @property
    def noise_scale(self) -> float:
        """Noise over signal: the number of edges whose mean carries as much noise as signal; 0 without a signal."""
        return self.noise / self.signal if self.signal > 0 else 0.0

    def expected(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Decrease over beta that a mean of so many edges promises with the step that suits it, and that step's scale.

        The mean of `a` of `K` edges has the noise `sigma^2 (K - a) / (a (K - 1))`; no step is longer than the ceiling,
        and without noise none is shorter: steps shortened for curvature alone let it grow, until they stand still. Nor
        are they for noise where the curvature is well below 1: what a round leaves out, later ones pay.
        """
        K, q = len(self.updates), min(self.curvature, _TRUSTED) ** _SHARPLY
        energy = self.signal + _UNPAID * self.noise * (K - sizes) / (sizes * max(K - 1, 1))
        step = np.minimum(self.ceiling, self.signal / np.maximum(q * energy, max(self.signal, _TINY)))
        return step * self.signal - 0.5 * step**2 * q * energy, step

    def service(self, sets: BoolArray, step: float) -> FloatArray:
        """How well a step along the mean `m` of each row of `sets` pays what is due, `d = g + debt / step`.

        `<d, m> - |m|^2 / 2`: what it takes off `|d - m|^2 / 2`, which is left to later rounds. Without sketches nothing
        is known of directions; what counts is then the mean importance.
        """
        if self.blind:
            return np.asarray(sets @ self.updates[:, 0] ** 2 / sets.sum(axis=1))
        mean = sets @ self.updates / sets.sum(axis=1)[:, None]
        due = self.gradient + self.debt / max(step, _LOWEST)
        return np.asarray(mean @ due - 0.5 * (mean**2).sum(axis=1))

    def in_stride(self, scheduled: BoolArray, step: float) -> float:
        """The step, or one as long as usual if it would move the model more than ten times as far as that.

        Where one step multiplies the gradient by a hundred, the next one would leave all that was learned behind.
        """
        length = float(np.linalg.norm(self.updates[scheduled].mean(axis=0)))
        return step if step * length <= _FARTHEST * self.stride else self.stride / length

    def step_for(self, scheduled: BoolArray, age: int) -> float:
        """The step scale that lowers the loss most along the mean of a set whose oldest update is `age` rounds old.

        From 0, which drops it, to the ceiling; and at most `1 / (1 + q age)`, since steps that answer a gradient `age`
        rounds old swing up unless `q age` stays small.
        """
        mean = self.updates[scheduled].mean(axis=0)
        slope, drag = float(mean @ self.gradient), self.curvature * float(mean @ mean)
        best = slope / drag if drag > 0 else self.ceiling
        return float(np.clip(best, 0.0, min(self.ceiling, 1.0 / (1.0 + self.curvature * age)))) if slope > 0 else 0.0


def estimate(problem: RoundProblem, memory: Memory, *, unpriced: bool = False) -> tuple[Estimate, Memory]:
    """The state of the loss, and the memory that knows this round's updates; `unpriced`, an old one is as a new one.

    A pending update computed `tau` rounds ago is the gradient of a model that has moved since: `u_k - q (moved)` is
    what it would be now, if the curvature were the same in all directions. Without sketches all updates are taken to
    point the same way.
    """
    updates = np.sqrt(problem.importance)[:, None] if problem.sketches is None else problem.sketches
    if len(memory.get(_PATH, ())) != updates.shape[1]:
        memory = _blank(updates.shape[1])
    memory = _settled(memory)
    travelled, edges, curve = _compared(problem, updates, memory)
    curvature = max(curve[_BEND] / curve[_REACH], 0.0) if curve[_REACH] > 0 else 0.0
    now = updates if unpriced else updates - curvature * travelled
    gradient = now.mean(axis=0)
    watch = _watched(memory, gradient, curvature)
    found = Estimate(
        updates=updates,
        gradient=gradient,
        debt=np.asarray(memory[_DEBT]),
        curvature=curvature,
        noise=float(((now - gradient) ** 2).sum()) / max(len(updates) - 1, 1),
        ceiling=watch[_CEILING],
        stride=math.sqrt(memory.get(_STRIDE, math.inf)),
        blind=problem.sketches is None,
        unpriced=unpriced,
    )
    return found, {**memory, _EDGES: edges, **curve, **watch}


def _blank(width: int) -> Memory:
    """The memory of a run that has not begun."""
    return {_PATH: [0.0] * width, _DEBT: [0.0] * width}


def intended(problem: RoundProblem, memory: Memory, scheduled: BoolArray, step: float) -> Memory:
    """The memory of a plan: to move along the mean of these edges. Whether it came to that, the next round knows."""
    names = [name for name, chosen in zip(problem.names, scheduled, strict=True) if chosen]
    return {**memory, _PLANNED: {"edges": names, "step": step}}


def _settled(memory: Memory) -> Memory:
    """The memory after the step that was last intended, along the mean that was really taken.

    That is the plain mean of the plan's set, unless the round says otherwise: edges fail, others come first, old
    updates are discounted, edges weigh differently. Of an edge that nothing is known of nothing is counted.
    """
    memory = dict(memory)
    plan, shares, known = memory.pop(_PLANNED, None), memory.pop(APPLIED, None), memory.get(_EDGES, {})
    if plan is None:
        return memory
    if shares is None:
        mean = np.array([known[name]["update"] for name in plan["edges"]]).mean(axis=0)
    else:
        parts = [share * np.asarray(known[name]["update"]) for name, share in shares.items() if name in known]
        mean = np.sum(parts, axis=0) if parts else np.zeros(len(memory[_PATH]))
    return moved(memory, mean, plan["step"])


def moved(memory: Mapping[str, Any], mean: FloatArray, step: float) -> Memory:
    """The memory after the model has moved by `-beta step mean`; what all edges wanted beyond that is owed."""
    path = np.asarray(memory[_PATH]) + step * mean
    debt = _OWED * (np.asarray(memory[_DEBT]) + step * (np.asarray(memory[_GRADIENT]) - mean))
    memory = {**memory, _PATH: path.tolist(), _DEBT: debt.tolist(), _STEP: (step * mean).tolist()}
    squared = step**2 * float(mean @ mean)
    if squared > 0:  # a step of nothing says nothing of the next
        memory[_STRIDE] = _KEPT * float(memory.get(_STRIDE, squared)) + (1.0 - _KEPT) * squared
    return memory


def _compared(
    problem: RoundProblem, updates: FloatArray, memory: Memory
) -> tuple[FloatArray, dict[str, Any], dict[str, float]]:
    """How far the model has moved since each edge received its own, what to keep of the edges, and the curvature.

    An edge with a new update says how its gradient changed over a known move; `bend / reach` is the mean over such
    edges and recent rounds of `-<change, move> / |move|^2`, which is `q` along the moves.
    """
    names = problem.names
    path, known = np.asarray(memory[_PATH]), memory.get(_EDGES, {})
    new = {"update": updates, "path": np.broadcast_to(path, updates.shape)}
    seen = np.array([name in known for name in names])
    old = {
        what: np.array([known[name][what] if name in known else here for name, here in zip(names, values, strict=True)])
        for what, values in new.items()
    }
    waits = seen & (problem.staleness > 0)
    move = path - old["path"]
    change = old["update"] - updates
    fresh = ~waits
    bend = _KEPT * float(memory.get(_BEND, 0.0)) + float((change * move)[fresh].sum())
    reach = _KEPT * float(memory.get(_REACH, 0.0)) + float((move**2)[fresh].sum())
    since = np.where(waits[:, None], old["path"], path)
    edges = {
        name: {"update": update.tolist(), "path": start.tolist()}
        for name, update, start in zip(names, updates, since, strict=True)
    }
    return np.where(waits[:, None], move, 0.0), edges, {_BEND: bend, _REACH: reach}


def _watched(memory: Memory, gradient: FloatArray, curvature: float) -> dict[str, Any]:
    """Whether the loss has been rising of late, and the step's ceiling, which then comes down, else rises towards 1.

    Over a known step `p` the loss changed by about `-beta <g before + g now, p> / 2` (the trapezoid of its slope). Long
    steps swing, and so does the loss while it falls. An alarm is a rise over some five rounds of more than a fiftieth
    of what the loss has fallen since the run, or this memory, began: the ceiling is then halved, and is no higher than
    `1 / q`, which suits the curvature. Norms alone never alarm: they have no direction to be turned back from.
    """
    before, step = np.asarray(memory.get(_GRADIENT, gradient)), np.asarray(memory.get(_STEP, 0.0 * gradient))
    change = -0.5 * float((before + gradient) @ step)
    rise = _KEPT * float(memory.get(_RISE, 0.0)) + change
    loss = float(memory.get(_LOSS, 0.0)) + change
    least = min(float(memory.get(_LEAST, 0.0)), loss)
    ceiling = float(memory.get(_CEILING, 1.0))
    if change > 0 and rise > _FORGIVEN * -least:
        ceiling = min(ceiling, max(0.5 * ceiling, _LOWEST), 1.0 / min(max(curvature, 1.0), _STEEPEST))
    else:
        ceiling = min(1.0, _RECOVERY * ceiling)
    return {_RISE: rise, _LOSS: loss, _LEAST: least, _CEILING: ceiling, _GRADIENT: gradient.tolist()}
