"""Every method against a plain loop over UEs that its paper alone has led to, round after round."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import one_segment_each
from plain_methods import OPTIONS, PLAIN, RATE, SIZE, Pair, Plain, at, network
from torch import Tensor

from hpfl.learning import METHODS, Cohort, Kept, LocalTraining, TestData, make_task
from hpfl.learning.method import shared_beside
from hpfl.rng import Streams
from hpfl.training.counted import Counted

SIZES = np.array([3, 11, 6, 8, 1, 13])
EDGE_OF_UE = np.array([0, 0, 1, 2, 2, 2])
ROUNDS = [[0, 1, 2, 3, 4, 5], [1, 2, 5], [0, 2, 3, 4, 5]]  # who takes part
WAYS: dict[str, dict[str, Any]] = {
    "whole shards": {"local_steps": 3},
    "mini-batches": {"local_steps": 3, "batch_size": 4},
    "epochs": {"local_epochs": 2, "batch_size": 4},
}
OFTEN = ("epochs", 3, torch.float64)
SETTINGS = [
    pytest.param(*one, marks=[] if one == OFTEN else [pytest.mark.slow])
    for one in product(WAYS, (2, 3), (torch.float64, torch.float32))
]
CASES = [(name, options) for name in PLAIN for options in OPTIONS.get(name, [{}])]


def samples() -> Pair:
    draws = torch.Generator().manual_seed(3)
    count = int(SIZES.sum())
    return torch.randn(count, 5, generator=draws, dtype=torch.float64), torch.randint(3, (count,), generator=draws)


def rows_of(ue: int) -> slice:
    return slice(int(SIZES[:ue].sum()), int(SIZES[: ue + 1].sum()))


class Ours:
    """A cohort whose cloud takes the mean of the edges' means."""

    def __init__(self, name: str, options: dict[str, Any], way: dict[str, Any], edges: np.ndarray, dtype: Any) -> None:
        method = METHODS.get(name, **options)()
        task = make_task(network())
        task = task.with_beside(shared_beside(method, task.spec))
        x, y = samples()
        training = LocalTraining(inner_lr=0.1, outer_lr=RATE, **way)
        shards = one_segment_each(SIZES)
        self.test = TestData(x.to(dtype), y, shards)
        self.cohort = Cohort(task, training, inputs=x.to(dtype), targets=y, shards=shards, method=method, dtype=dtype)
        self.params = task.flat_template().to(dtype)
        self.kept, self.edges = self.cohort.sending.first_rows(self.params, np.zeros(len(SIZES), dtype=np.int64)), edges
        self.kept = Kept(None if self.kept.method is None else self.kept.method.clone())
        places = getattr(method, "counted", None)
        self.counted = None if places is None else Counted(places(task.spec), len(SIZES))

    def play(self, number: int) -> None:
        ues = np.array(ROUNDS[number])
        names, groups = np.unique(self.edges[ues], return_inverse=True)
        found = self.cohort.updates(
            self.params,
            ues=ues,
            groups=groups,
            num_groups=len(names),
            streams=Streams(9),
            key=number,
            kept=self.kept.rows(ues),
        )
        self.kept.write(ues, found.kept)
        step = found.update.mean(0)
        self.params = self.params - RATE * (step if self.counted is None else self.counted.of(step, len(ues)))

    def batches(self, number: int) -> dict[int, list[Pair]]:
        """The samples that each UE draws, by their places alone."""
        (x, y), ues = samples(), np.array(ROUNDS[number])
        drawn = self.cohort.batches.drawn(ues, Streams(9), number)
        found: dict[int, list[Pair]] = {}
        for place, ue in enumerate(ues.tolist()):
            rows = rows_of(ue)
            if drawn is None:
                found[ue] = [(x[rows], y[rows])] * 3
            else:
                own = [step.index["support"][place, : step.counts[place]] for step in drawn if step.counts[place]]
                found[ue] = [(x[rows][index], y[rows][index]) for index in own]
        return found


class Theirs:
    """The loop."""

    def __init__(self, plain: Plain, start: Tensor, edges: np.ndarray) -> None:
        self.plain, self.w, self.edges = plain, start, edges
        self.own = [plain.first(start) for _ in SIZES]

    def play(self, batches: dict[int, list[Pair]]) -> None:
        by_edge: dict[int, list[Tensor]] = {}
        for ue, pairs in batches.items():
            by_edge.setdefault(int(self.edges[ue]), []).append(self.plain.train(self.w, self.own[ue], pairs))
        mean = torch.stack([torch.stack(sent).mean(0) for sent in by_edge.values()]).mean(0)
        self.w = self.plain.averaged(self.w, mean, len(batches), len(SIZES))


def test_every_method_has_a_plain_loop() -> None:
    ours = [name for name in METHODS.names() if METHODS.part(name).origin == "hpfl"]
    assert sorted(ours) == sorted(PLAIN)


@pytest.mark.parametrize(("way", "tiers", "dtype"), SETTINGS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_method_is_the_plain_loop_of_its_paper(
    name: str, options: dict[str, Any], way: str, tiers: int, dtype: torch.dtype
) -> None:
    edges = EDGE_OF_UE if tiers == 3 else np.zeros_like(EDGE_OF_UE)
    ours = Ours(name, options, WAYS[way], edges, dtype)
    theirs = Theirs(PLAIN[name](options), ours.params[:SIZE].double(), edges)
    for number in range(len(ROUNDS)):
        theirs.play(ours.batches(number))
        ours.play(number)
    bound = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(ours.params[:SIZE].double(), theirs.w, rtol=bound, atol=bound)
    found = ours.cohort.evaluate(ours.params, ours.test, inner_lr=0.1, kept=ours.kept)
    x, y = samples()
    for ue in range(len(SIZES)):
        own = x[rows_of(ue)], y[rows_of(ue)]
        expected = at(theirs.plain.model(theirs.w, theirs.own[ue], own), own)[0]
        assert found.personalised_test_loss[ue] == pytest.approx(expected, rel=bound, abs=bound)
        assert found.test_loss[ue] == pytest.approx(at(theirs.w, own)[0], rel=bound, abs=bound)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_an_epoch_takes_every_sample_once_and_draws_by_address(size: int) -> None:
    ours = Ours("fedavg", {}, {"local_epochs": 3, "batch_size": size}, EDGE_OF_UE, torch.float64)
    drawn = ours.cohort.batches.drawn(np.arange(6), Streams(9), 1)
    alone = ours.cohort.batches.drawn(np.array([5, 1]), Streams(9), 1)
    assert drawn is not None
    assert alone is not None
    orders = set()
    for ue in range(6):
        own = [step.index["support"][ue, : step.counts[ue]] for step in drawn if step.counts[ue]]
        assert len(own) == 3 * -(-SIZES[ue] // size)
        taken = np.concatenate(own).reshape(3, -1)
        assert (np.sort(taken, axis=1) == np.arange(SIZES[ue])).all()
        orders |= {tuple(row) for row in taken.tolist() if SIZES[ue] == 13}
    assert len(orders) == 3
    for step, other in zip(drawn, alone, strict=False):
        assert (step.counts[[5, 1]] == other.counts).all()
        for place, ue in ((0, 5), (1, 1)):
            count = step.counts[ue]
            assert (step.index["support"][ue, :count] == other.index["support"][place, :count]).all()
