"""How good the model is for the UEs: all of them, or a sample drawn once."""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.config import Experiment
from hpfl.learning import BoundMetric, Computes, Evaluation, TestData
from hpfl.training.evaluation_summary import EvaluationSummary, evaluation_is_due, summary_of


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Evaluates the UEs of `cohort`, which are the `ues` of `num_ues` (None: all)."""

    config: Experiment
    cohort: Computes
    test: TestData
    ues: IntArray | None
    num_ues: int
    metrics: tuple[BoundMetric, ...]

    def summary(self, params: torch.Tensor, round_number: int) -> EvaluationSummary | None:
        """The means, in the rounds that are evaluated."""
        every, rounds = self.config.evaluation.every, self.config.training.rounds
        if not evaluation_is_due(round_number, every=every, rounds=rounds):
            return None
        return summary_of(self._evaluation(params), self.metrics)

    def everyone(self, params: torch.Tensor) -> Evaluation:
        """One figure per UE; NaN for those that are not evaluated."""
        found = self._evaluation(params)
        if self.ues is None:
            return found
        return Evaluation({name: self._spread(values) for name, values in found.items()})

    def _evaluation(self, params: torch.Tensor) -> Evaluation:
        settings = self.config.evaluation
        inner_lr = self.config.adaptation_lr
        return self.cohort.evaluate(params, self.test, inner_lr=inner_lr, inner_steps=settings.inner_steps)

    def _spread(self, values: FloatArray) -> FloatArray:
        everywhere = np.full(self.num_ues, np.nan)
        everywhere[self.ues] = values
        return everywhere
