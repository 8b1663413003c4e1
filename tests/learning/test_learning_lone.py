"""Convolutional networks UE by UE in float32: large dense layers by oneDNN, filters laid for it, ReLU in place."""

import numpy as np
import pytest
import torch
from cohort_examples import one_segment_each
from torch import Tensor, nn

from hpfl.learning import METHODS, Cohort, LocalTraining, TestData, make_task
from hpfl.learning.batches import Batch
from hpfl.learning.own.chunk import OwnChunk
from hpfl.learning.own.layers import Into
from hpfl.learning.own.lone_dense import LoneDense, _suits
from hpfl.learning.own.network import OwnNetwork
from hpfl.learning.own.overwritten import OverwritingRelu
from hpfl.rng import Streams

SIZES = np.array([7, 12, 3])


def wide(features: int) -> nn.Module:
    """Two convolutions and a dense layer of some 65,536 numbers or more."""
    channels = features // 16
    return nn.Sequential(
        *(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.Conv2d(5, channels, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(features, -(-65_536 // features)), nn.ReLU(), nn.Linear(-(-65_536 // features), 3)),
    )


def drawn(count: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(4)
    return torch.randn(count, 2, 12, 12, generator=draws), torch.randint(3, (count,), generator=draws)


@pytest.mark.parametrize("features", [1024, 1040])  # rows that lie a page apart, and others
def test_gradients_of_wide_layers_are_those_of_autograd(features: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        task = make_task(wide(features))
    own = OwnNetwork.of(task)
    assert own is not None
    assert sum(isinstance(layer, OverwritingRelu) for layer in own.layers) == 3
    points = torch.stack([task.flat_template() * (1 + 0.1 * ue) for ue in range(2)])
    x, y = drawn(8)
    batch = Batch(x.view(2, 4, 2, 12, 12), y.view(2, 4), torch.full((2, 4), 0.25))
    chunk = OwnChunk(own, task.spec, {"support": batch.each(lambda part: part[None])}, np.full((1, 2), 4))
    params = chunk.parts(points)
    lone = next(layer for layer in own.layers if isinstance(layer, LoneDense))
    weight = params[f"{lone.name}.weight"]
    assert _suits(weight, torch.zeros(2, 4, features))
    assert not _suits(weight, torch.zeros(2, features, 4).mT)
    loss, flat = chunk.gradient(0, "support", points)
    stepped = chunk.walking(points)
    own.gradient(stepped, batch, Into(stepped, own.names, beta=1.0, alpha=-0.5))
    for ue in range(2):

        def plain(point: Tensor, ue: int = ue) -> Tensor:
            return task.loss(task.outputs(point, batch.inputs[ue]), batch.targets[ue]).mean()

        gradient, value = torch.func.grad_and_value(plain)(points[ue])
        torch.testing.assert_close(flat[ue], gradient, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(loss[ue], value)
    torch.testing.assert_close(chunk.whole(stepped, points), points - 0.5 * flat, rtol=1e-5, atol=1e-7)
    assert torch.equal(batch.inputs.flatten(0, 1), x)  # nothing is written over that is not the network's


def test_threads_and_chunks_change_no_bit_of_wide_layers() -> None:
    before, found = torch.get_num_threads(), []
    x, y = drawn(int(SIZES.sum()))
    training = LocalTraining(inner_lr=0.1, outer_lr=0.1, local_epochs=1, batch_size=4)
    everyone = np.arange(len(SIZES))
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.random.fork_rng():
                torch.manual_seed(1)
                task = make_task(wide(1024))
            shards = one_segment_each(SIZES)
            own = Cohort(task, training, inputs=x, targets=y, shards=shards, method=METHODS.get("ditto")())
            asked = {"groups": everyone // 2, "num_groups": 2, "streams": Streams(2), "key": 1}
            updates = own.updates(task.flat_template(), ues=everyone, **asked)
            figures = own.evaluate(task.flat_template(), TestData(x, y, shards), inner_lr=0.1, kept=updates.kept)
            assert updates.kept.method is not None
            told = torch.from_numpy(figures["personalised_test_loss"])
            found.append((updates.update, updates.kept.method, told))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)
