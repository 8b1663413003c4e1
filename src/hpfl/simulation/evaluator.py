"""How good the model is for the UEs: all of them, or a sample drawn once."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.config import Config
from hpfl.learning import BoundMetric, Computes, Evaluation, TestData
from hpfl.training.evaluation_summary import EvaluationSummary, evaluation_is_due, summary_of
from hpfl.training.kept import kept_of
from hpfl.training.state import TrainState


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Evaluates the UEs of `cohort`, which are the `ues` of `num_ues` (None: all)."""

    config: Config
    cohort: Computes
    test: TestData
    ues: IntArray | None
    num_ues: int
    metrics: tuple[BoundMetric, ...]

    def summary(self, state: TrainState) -> EvaluationSummary | None:
        """The means, in the rounds that are evaluated."""
        every, rounds = self.config.evaluation.every, self.config.training.rounds
        if not evaluation_is_due(state.round, every=every, rounds=rounds):
            return None
        return summary_of(self._evaluation(state), self.metrics)

    def everyone(self, state: TrainState) -> Evaluation:
        """One figure per UE; NaN for those that are not evaluated."""
        found = self._evaluation(state)
        if self.ues is None:
            return found
        return Evaluation({name: self._spread(values) for name, values in found.items()})

    def _evaluation(self, state: TrainState) -> Evaluation:
        settings = self.config.evaluation
        assert not isinstance(settings.inner_lr, str)
        rate, steps, kept = settings.inner_lr, settings.inner_steps, kept_of(state.kept, self.ues)
        return self.cohort.evaluate(state.params, self.test, inner_lr=rate, inner_steps=steps, kept=kept)

    def _spread(self, values: FloatArray) -> FloatArray:
        everywhere = np.full(self.num_ues, np.nan)
        everywhere[self.ues] = values
        return everywhere
