"""How good the model is for the UEs: all of them, or a sample drawn once; and for newcomers, that never trained."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.config import Experiment
from hpfl.learning import BoundMetric, Computes, Evaluation, Kept, TestData
from hpfl.learning.kept import replaced
from hpfl.private_runs import is_out_of_budget
from hpfl.rng import Streams
from hpfl.simulation.attack_success import ACCURACY
from hpfl.training.edge_round import draw_key
from hpfl.training.evaluation_summary import EvaluationSummary, evaluation_is_due, summary_apart
from hpfl.training.remembered import kept_of
from hpfl.training.state import TrainState

Told = Callable[[int, Evaluation, IntArray], None]
"""Hears of every evaluation: the round after which it was, the figures, and where in the fleet the UEs are."""


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Evaluates the UEs of `cohort`, which are the `ues` of `num_ues` (None: all); `told` hears of every round's.

    `newcomers` [N] never train (None: everybody does). One that keeps something between rounds begins with the model
    there is and does its local work on it once; then it is evaluated as the others are.
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
    newcomers: BoolArray | None = None
    told: Told = lambda round_number, evaluation, ues: None

    def summary(self, state: TrainState) -> EvaluationSummary | None:
        """The means, in the rounds that are evaluated."""
        every, rounds = self.config.evaluation.every, self.config.training.rounds
        due = evaluation_is_due(state.round, every=every, rounds=rounds)
        if not due and not is_out_of_budget(self.config, state):
            return None
        found = self._evaluation(state)
        self.told(state.round, found, np.arange(self.num_ues) if self.ues is None else self.ues)
        return summary_apart(found, None if self.newcomers is None else self._new, self.metrics)

    def everyone(self, state: TrainState) -> Evaluation:
        """One figure per UE; NaN for those that are not evaluated."""
        found = self._evaluation(state)
        if self.ues is None:
            return found
        return Evaluation({name: self._spread(values) for name, values in found.items()})

    def _evaluation(self, state: TrainState) -> Evaluation:
        settings = self.config.evaluation
        rate, steps, kept = self.config.adaptation_lr, settings.inner_steps, self._begun(state)
        found = self.cohort.evaluate(state.params, self.test, inner_lr=rate, inner_steps=steps, kept=kept)
        if self.aimed is None:
            return found
        taken_in = self.cohort.evaluate(state.params, self.aimed, inner_lr=rate, inner_steps=steps, kept=kept)
        columns = zip(self.metrics[-1].columns, ACCURACY.columns, strict=True)
        return Evaluation({**found, **{name: taken_in[accuracy] for name, accuracy in columns}})

    @property
    def _new(self) -> BoolArray:
        """Which of the UEs that are evaluated are newcomers."""
        assert self.newcomers is not None
        return self.newcomers if self.ues is None else self.newcomers[self.ues]

    def _begun(self, state: TrainState) -> Kept:
        """What the UEs keep; newcomers, what they keep after their first local work, on the model there is."""
        kept = kept_of(state.kept, self.ues)
        if self.newcomers is None or kept.method is None or not self._new.any():
            return kept
        ues = np.flatnonzero(self._new)
        begun = self.cohort.updates(
            state.params,
            ues=ues,
            groups=np.zeros_like(ues),
            num_groups=1,
            streams=Streams(self.config.training.seed),
            key=draw_key(state.round, 0),
        )
        assert begun.kept.method is not None
        now = {} if kept.uplink is None else {"uplink": kept.uplink}
        return Kept.of(method=replaced(kept.method, ues, begun.kept.method), **now)

    def _spread(self, values: FloatArray) -> FloatArray:
        everywhere = np.full(self.num_ues, np.nan)
        everywhere[self.ues] = values
        return everywhere
