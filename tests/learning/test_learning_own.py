"""Networks with weights of each UE's own: gradients, engines that are chosen, and chunks side by side."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import one_segment_each
from torch import Tensor, nn

from hpfl.learning import METHODS, Cohort, LocalTraining, TestData, make_task
from hpfl.learning.batches import Batch
from hpfl.learning.engine import is_in_place
from hpfl.learning.method import shared_beside
from hpfl.learning.own import own_engine
from hpfl.learning.own.layers import Into
from hpfl.learning.own.network import OwnNetwork
from hpfl.learning.own.own_convolution import OwnConvolution
from hpfl.learning.own.own_engine import OwnEngine
from hpfl.learning.side_by_side import in_turn
from hpfl.rng import Streams

SIZES = np.array([5, 9, 2, 7])


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 6), nn.GroupNorm(2, 6), nn.ReLU(), nn.Linear(6, 3, bias=False))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 6), nn.ReLU(), nn.Linear(6, 3, bias=False))


def normed() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.GroupNorm(2, 4)),
        *(nn.Conv2d(4, 6, 3, padding=1, stride=2, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(54, 3)),
    )


def four_layers() -> nn.Module:
    """The CNN of PFLlib's protocol, narrow and on small images."""
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3)),
    )


NETWORKS = [dense, normed, four_layers]


def samples(count: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    return torch.randn(count, 1, 12, 12, generator=draws, dtype=torch.float64), torch.randint(
        3, (count,), generator=draws
    )


@pytest.mark.parametrize("patches", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_those_of_autograd_for_every_ue(
    network: Any, patches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnConvolution, "_by_patches", lambda self, rows: patches)  # as on a GPU
    task = make_task(network).to(torch.device("cpu"), torch.float64)
    own = OwnNetwork.of(task)
    assert own is not None
    points = torch.stack([task.trial_parameters() * (1 + 0.1 * ue) for ue in range(3)])
    x, y = samples(12)
    x, y, weights = x.view(3, 4, 1, 12, 12), y.view(3, 4), torch.full((3, 4), 0.25, dtype=torch.float64)
    weights[1, 3] = 0
    params = task.spec.unflatten(points)
    found = {name: torch.zeros(part.shape, dtype=part.dtype) for name, part in params.items()}
    loss = own.gradient(params, Batch(x, y, weights), Into(found, own.names))
    flat = torch.cat([found[name].flatten(1) for name in task.spec.names], 1)
    for ue in range(3):

        def plain(point: Tensor, ue: int = ue) -> Tensor:
            return (task.loss(task.outputs(point, x[ue]), y[ue]) * weights[ue]).sum()

        gradient, value = torch.func.grad_and_value(plain)(points[ue])
        torch.testing.assert_close(flat[ue], gradient, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(loss[ue], value)


def test_what_is_held_fast_stays_and_costs_no_errors() -> None:
    task = make_task(four_layers).to(torch.device("cpu"), torch.float64)
    own = OwnNetwork.of(task)
    assert own is not None
    x, y = samples(4)
    params = {name: part.clone() for name, part in task.spec.unflatten(task.trial_parameters()[None]).items()}
    before = {name: part.clone() for name, part in params.items()}
    head = frozenset({"9.weight", "9.bias"})
    batch = Batch(x[None], y[None], torch.full((1, 4), 0.25, dtype=torch.float64))
    own.gradient(params, batch, Into(params, head, beta=1.0, alpha=-0.1))
    assert {name for name in params if not torch.equal(params[name], before[name])} == head


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.LayerNorm(3)),
        nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.Bilinear(4, 4, 2)),
    ],
)
def test_other_models_are_no_such_networks(module: nn.Module) -> None:
    assert OwnNetwork.of(make_task(module)) is None


def cohort(
    name: str, network: Any, options: dict[str, Any], *, layerwise: bool, way: dict[str, Any], device: str = "cpu"
) -> Cohort:
    method = METHODS.get(name, **options)()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        task = make_task(network())
    task = task.with_beside(shared_beside(method, task.spec))
    x, y = samples(int(SIZES.sum()))
    training = LocalTraining(inner_lr=0.1, outer_lr=0.1, **way)
    return Cohort(
        task,
        training,
        inputs=x,
        targets=y,
        shards=one_segment_each(SIZES),
        method=method,
        dtype=torch.float64,
        layerwise=layerwise,
        device=device,
    )


def rounds(own: Cohort) -> Iterator[Tensor]:
    """The model, what UEs keep and their figures, after two rounds."""
    params, kept = own.task.flat_template().to(own.device), None
    everyone = np.arange(len(SIZES))
    asked: dict[str, Any] = {"ues": everyone, "groups": everyone // 2, "num_groups": 2, "streams": Streams(2)}
    for number in range(2):
        found = own.updates(params, key=number, kept=kept, **asked)
        params, kept = params - 0.1 * found.update.mean(0), found.kept
    x, y = samples(int(SIZES.sum()))
    test = TestData(x, y, one_segment_each(SIZES))
    yield params.cpu()
    if kept is not None and kept.method is not None:
        yield kept.method.cpu()
    yield torch.from_numpy(own.evaluate(params, test, inner_lr=0.1, kept=kept)["personalised_test_loss"])


OPTIONS: dict[str, dict[str, Any]] = {
    "fedprox": {"momentum": 0.5, "weight_decay": 0.01},
    "fedrep": {"head_passes": 2},
    "per-fedavg": {"gradient": "first-order"},
}


@pytest.mark.parametrize("network", [perceptron, normed, pytest.param(four_layers, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METHODS.names())
def test_methods_are_those_of_the_general_engine(name: str, network: Any) -> None:
    way = {"local_epochs": 2, "batch_size": 4, "batches": "independent"}
    fast, slow = (cohort(name, network, OPTIONS.get(name, {}), layerwise=own, way=way) for own in (True, False))
    assert isinstance(fast.engine, OwnEngine)
    assert not isinstance(slow.engine, OwnEngine)
    for mine, other in zip(rounds(fast), rounds(slow), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")
@pytest.mark.parametrize("network", [normed, four_layers])
@pytest.mark.parametrize("name", METHODS.names())
def test_recorded_steps_are_those_of_a_cpu(name: str, network: Any) -> None:
    way = {"local_epochs": 3, "batch_size": 2, "batches": "independent"}  # 3, 6, 3 and 3 steps of 4, 3, 2 and 1 UEs
    options = OPTIONS.get(name, {})
    there, here = (cohort(name, network, options, layerwise=True, way=way, device=device) for device in ("cuda", "cpu"))
    for mine, other in zip(rounds(there), rounds(here), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)
    assert isinstance(there.engine, OwnEngine)
    stages = there.engine.stages
    assert stages is not None
    graphs = [one.graphs for one in (*stages.known.values(), *stages.recorded.values())]
    assert any(graphs) or stages.slopes


@pytest.mark.parametrize("name", METHODS.names())
def test_dense_networks_send_the_sum_of_what_each_ue_would(name: str) -> None:
    options = {"gradient": "first-order"} if name == "per-fedavg" else {}
    own = cohort(name, dense, options, layerwise=True, way={"local_epochs": 2, "batch_size": 4})
    assert is_in_place(own.engine)
    everyone, params = np.arange(len(SIZES)), own.task.flat_template()
    asked: dict[str, Any] = {"ues": everyone, "groups": everyone // 2, "num_groups": 2, "streams": Streams(2), "key": 0}
    together, apart = (own.updates(params, **asked, keep_per_ue=rows) for rows in (False, True))
    assert apart.per_ue is not None
    assert apart.shares is not None
    rows = apart.per_ue * torch.from_numpy(apart.shares).unsqueeze(1)
    torch.testing.assert_close(together.update, torch.stack([rows[:2].sum(0), rows[2:].sum(0)]), rtol=1e-12, atol=1e-14)
    scattered = own.updates(params, **asked | {"ues": everyone[[2, 0]], "groups": np.array([0, 1])})
    if together.kept.method is not None and scattered.kept.method is not None:
        torch.testing.assert_close(scattered.kept.method, together.kept.method[[2, 0]])


@pytest.mark.parametrize("network", [four_layers, dense])
def test_threads_and_company_change_no_bit(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_engine, "_CACHED_BYTES", 1)  # a chunk for each UE
    way = {"local_epochs": 1, "batch_size": 4}
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(list(rounds(cohort("ditto", network, {}, layerwise=True, way=way))))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)


def test_results_come_in_order_and_an_error_comes_out() -> None:
    def fail() -> int:
        raise ZeroDivisionError

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert list(in_turn([lambda n=n: n for n in range(9)], [n % 3 for n in range(9)], 1)) == list(range(9))
        with pytest.raises(ZeroDivisionError):
            list(in_turn([lambda: 1, fail, lambda: 2], [1, 1, 1], 10**12))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
