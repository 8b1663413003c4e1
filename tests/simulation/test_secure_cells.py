"""Sums under masks in the simulator: what arrives is what exact sums of whole numbers say, and nothing below a threshold."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

import hpfl
from hpfl.cell_sums import cell_sum_of
from hpfl.config import ConfigError, fingerprint
from hpfl.data.sources import load_dataset
from hpfl.learning.draws import Draws
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.edge_round import draw_key
from hpfl.training.loop import play_round, train

SECURE = "secure.aggregation=cell"
SMALL = [
    "network.edges=3",
    "network.ues_per_edge=[5, 4, 6]",
    "data.samples_per_ue=[5, 20]",
    "learning.model=ue_and_rule_parts:narrow",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.planner=random",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=8",
]


def configured(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


def simulation(*overrides):
    made = configured(*overrides)
    return build_simulation(made, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def rounds_of(made, count=None):
    """States, observations, outcomes and records of a run, round by round."""
    played, state = [], made.start

    class Watched:
        def __getattr__(self, name):
            return getattr(made.parts.executor, name)

        def observe(self, state):
            played.append([state, made.parts.executor.observe(state)])
            return played[-1][1]

        def execute(self, state, observation, plan):
            played[-1].append(made.parts.executor.execute(state, observation, plan))
            return played[-1][2]

    parts = replace(made.parts, executor=Watched())
    for _ in range(count or made.settings.rounds):
        state, record = play_round(state, parts, made.settings)
        played[-1] += [record, state]
    return played


def rows_of(made, params, ues, key):
    """The updates of UEs, one by one, from a model."""
    groups = np.zeros(len(ues), dtype=np.int64)
    asked = {"ues": ues, "groups": groups, "num_groups": 1, "streams": made.parts.streams, "key": key}
    return made.parts.executor.learners.cohort.updates(params, **asked, keep_per_ue=True).per_ue


def level(number, scale, count, uniform):
    """A level by hand, with Python's numbers."""
    half = (count - 1) / 2
    steps = min(max(float(number) * (half / float(scale)), -half), half) + half
    return int(steps // 1) + (float(uniform) < steps - steps // 1)


def by_hand(made, params, ues, edge, base_round, *, scales=None, count=2**24 - 1, largest=16.0, bucket=0, weighed=False):
    """The mean of some UEs' updates and, of each bucket, the share that was clipped: Python's own whole numbers."""
    key, streams = draw_key(base_round, 0), made.parts.streams
    rows = rows_of(made, params, ues, key)
    n = rows.shape[1]
    scale_of = [largest] * n if scales is None else [float(scales[i // bucket]) for i in range(n)]
    total, clipped, weight = [0] * n, [0] * (0 if scales is None else len(scales)), 0
    for ue, row in zip(ues, rows, strict=True):
        own = int(made.fleet.num_samples[ue]) if weighed else 1
        uniform = Draws(streams, key, np.array([ue]), torch.device("cpu"), "cell/masking/levels").uniform32(n)[0].tolist()
        numbers, weight = row.double().tolist(), weight + own
        for at, number in enumerate(numbers):
            total[at] += own * level(number, scale_of[at], count, uniform[at])
        for at in range(len(clipped)):
            piece = numbers[at * bucket : (at + 1) * bucket]
            clipped[at] += own * (max(map(abs, piece)) > float(scales[at]))
    mean = [
        float(2 * one - (count - 1) * weight) * (scale / (count - 1)) / weight
        for one, scale in zip(total, scale_of, strict=True)
    ]
    return torch.tensor(mean, dtype=torch.float64), [Fraction(one, weight) for one in clipped]


def cell_of(made, edge):
    return np.flatnonzero(made.fleet.edge_of_ue == edge)


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_an_update_is_what_exact_sums_of_whole_numbers_say(weighting):
    made = simulation(SECURE, f"training.weighting={weighting}")
    state, seen, outcome, record, _ = rounds_of(made, 1)[0]
    assert len(outcome.arrivals) == 2
    for came in outcome.arrivals:
        ues = cell_of(made, came.member)
        expected, _ = by_hand(made, state.params, ues, came.member, 0, weighed=weighting == "samples")
        assert torch.equal(came.update, expected.float())
        assert came.importance == pytest.approx(float(expected.float().double().square().sum()), rel=1e-12)
    assert record.cells_below_threshold == record.num_scaled_down == 0


def test_levels_of_24_bits_change_an_update_less_than_its_own_rounding_to_float32_matters():
    made, plain = simulation(SECURE), simulation()
    fixed, floats = rounds_of(made, 1)[0][1].pending, rounds_of(plain, 1)[0][1].pending
    off = torch.linalg.vector_norm(fixed - floats, dim=1) / torch.linalg.vector_norm(floats, dim=1)
    assert 0 < float(off.max()) < 1e-3
