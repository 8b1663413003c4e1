"""How good the model is for the UEs: all of them, or a sample drawn once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.assembly import ACCURACY
from hpfl.config import Experiment
from hpfl.learning import BoundMetric, Computes, Evaluation, TestData
from hpfl.training.evaluation_summary import EvaluationSummary, evaluation_is_due, summary_of
from hpfl.training.remembered import kept_of
from hpfl.training.state import TrainState

Told = Callable[[int, Evaluation, IntArray], None]
"""Hears of every evaluation: the round after which it was, the figures, and where in the fleet the UEs are."""


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Evaluates the UEs of `cohort`, which are the `ues` of `num_ues` (None: all); `told` hears of every round's.

    `aimed` are test samples as an attack would have them answered, whose accuracy is the success that the last of the
    `metrics` stands for; None: there is no such attack.
    """

    config: Experiment
    cohort: Computes
    test: TestData
    ues: IntArray | None
    num_ues: int
    metrics: tuple[BoundMetric, ...]
    aimed: TestData | None = None
    told: Told = lambda round_number, evaluation, ues: None

    def summary(self, state: TrainState) -> EvaluationSummary | None:
        """The means, in the rounds that are evaluated."""
        every, rounds = self.config.evaluation.every, self.config.training.rounds
        if not evaluation_is_due(state.round, every=every, rounds=rounds):
            return None
        found = self._evaluation(state)
        self.told(state.round, found, np.arange(self.num_ues) if self.ues is None else self.ues)
        return summary_of(found, self.metrics)

    def everyone(self, state: TrainState) -> Evaluation:
        """One figure per UE; NaN for those that are not evaluated."""
        found = self._evaluation(state)
        if self.ues is None:
            return found
        return Evaluation({name: self._spread(values) for name, values in found.items()})

    def _evaluation(self, state: TrainState) -> Evaluation:
        settings = self.config.evaluation
        rate, steps, kept = self.config.adaptation_lr, settings.inner_steps, kept_of(state.kept, self.ues)
        found = self.cohort.evaluate(state.params, self.test, inner_lr=rate, inner_steps=steps, kept=kept)
        if self.aimed is None:
            return found
        taken_in = self.cohort.evaluate(state.params, self.aimed, inner_lr=rate, inner_steps=steps, kept=kept)
        columns = zip(self.metrics[-1].columns, ACCURACY.columns, strict=True)
        return Evaluation({**found, **{name: taken_in[accuracy] for name, accuracy in columns}})

    def _spread(self, values: FloatArray) -> FloatArray:
        everywhere = np.full(self.num_ues, np.nan)
        everywhere[self.ues] = values
        return everywhere
