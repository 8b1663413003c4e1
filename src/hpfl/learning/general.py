"""The general engine: any module by `torch.func`, all UEs of a chunk in one batched call (or one by one, see below)."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from hpfl.learning.batches import Batch, loss_weights
from hpfl.learning.engine import Losses, Sums, try_one
from hpfl.learning.faults import LearningError
from hpfl.learning.method import Method, descended
from hpfl.learning.metrics import Tested, TestOutputs
from hpfl.learning.objective import OBJECTIVES, Gradient, LocalTraining, Role, adapted
from hpfl.learning.task import ParameterSpec, Task

Arrays = tuple[Tensor, Tensor, Tensor]  # inputs [n, ...], targets [n, ...], weights [n] of one UE

_CONVOLUTIONS = (nn.modules.conv._ConvNd,)


@dataclass(frozen=True)
class FlatCalculus:
    """Gradients of one UE as flat vectors [P]."""

    task: Task
    batches: dict[str, Arrays]

    @property
    def spec(self) -> ParameterSpec:
        """Names and places of the parameters."""
        return self.task.spec

    @property
    def active(self) -> Tensor:
        """Whether any sample counts."""
        return (self.batches["support"][2] != 0).any()

    def loss(self, point: Tensor, role: Role = "support") -> Tensor:
        """The UE's loss on one batch."""
        return self._loss(role)(point)

    def gradient(self, point: Tensor, role: Role = "support", *, keep: bool = False) -> Gradient:
        """Gradient by reverse mode; a kept one can be differentiated again without another forward pass."""
        if not keep:
            direction, loss = grad_and_value(self._loss(role))(point)
            return Gradient(point, loss, direction)
        results: Any = vjp(grad_and_value(self._loss(role)), point, has_aux=True)
        direction, pullback, loss = results
        return Gradient(point, loss, direction, pullback)

    def moved(self, point: Tensor, scale: float, direction: Tensor) -> Tensor:
        """`point + scale * direction`."""
        return point + scale * direction

    def plus(self, direction: Tensor, scale: float, other: Tensor) -> Tensor:
        """`direction + scale * other`."""
        return direction + scale * other

    def hessian_vector(self, at: Gradient, direction: Tensor) -> Tensor:
        """Hessian-vector product by reverse over reverse; the Hessian is symmetric."""
        if self._batch("hessian") is not self._batch("support"):
            at = self.gradient(at.point, "hessian", keep=True)
        product: Tensor = at.tape(direction)[0]
        return product

    def _batch(self, role: Role) -> Arrays:
        return self.batches.get(role, self.batches["support"])

    def _loss(self, role: Role) -> Callable[[Tensor], Tensor]:
        inputs, targets, weights = self._batch(role)
        return lambda p: (self.task.loss(self.task.outputs(p, inputs), targets) * weights).sum()


@dataclass(frozen=True)
class GeneralEngine:
    """Updates and evaluation of a chunk of UEs for any model."""

    task: Task
    training: LocalTraining
    one_by_one: bool = (
        False  # per-UE weights turn a convolution into a grouped one, which a CPU runs slower than a loop
    )
    method: Method | None = None  # None: the objective that `training` names
    clips: ClassVar[bool] = False
    side_by_side: ClassVar[bool] = False

    @staticmethod
    def choose(task: Task, training: LocalTraining, example: Batch, method: Method | None = None) -> "GeneralEngine":
        """Batched over UEs where the model's layers allow it, as one UE tried here tells.

        Convolutions on a CPU run one UE at a time: `benchmarks/learning.py` has the measurement.
        """
        convolutional = any(isinstance(part, _CONVOLUTIONS) for part in task.module.modules())
        engine, start = GeneralEngine(task, training, method=method), task.flat_template()
        if (convolutional and not example.inputs.is_cuda) or not engine._batches(start, example):
            engine = replace(engine, one_by_one=True)
            engine._refuse_failing(start, example)
        return engine

    def _batches(self, start: Tensor, example: Batch) -> bool:
        """Whether torch can batch the whole computation over UEs; recurrent layers, for one, it cannot."""
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="There is a performance drop")
            try:
                try_one(self, start, example)
            except (RuntimeError, UserWarning):
                return False
        return True

    def _refuse_failing(self, start: Tensor, example: Batch) -> None:
        """Refuse a model whose update torch cannot compute, by the layer where it is known."""
        try:
            try_one(self, start, example)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            if "derivative" not in reason or not self._twice:
                raise LearningError(f"the update of a UE cannot be computed with this model: {reason}") from error
            bags = [n for n, part in self.task.module.named_modules() if isinstance(part, nn.EmbeddingBag)]
            where = f"layer {bags[0]!r} (EmbeddingBag)" if bags else "the model or its loss"
            raise LearningError(
                f"{where} cannot be differentiated twice ({reason}), as the objective 'exact' wants; use "
                f"{'nn.Embedding with a sum or mean over its words' if bags else 'others'}, or the objective "
                "'hessian-free' or 'first-order'"
            ) from error

    @property
    def preferred_samples(self) -> int | None:
        """As many as fit the memory; one UE at a time needs no more than its own."""
        return 1 if self.one_by_one else None

    @property
    def preferred_ues(self) -> int | None:
        """Samples tell."""
        return None

    @property
    def _twice(self) -> bool:
        return self.method is None and bool(OBJECTIVES.part(self.training.objective).traits["twice"])

    def updates(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None = None
    ) -> Losses:
        """Add the update directions of a chunk to its group sums; a method is given what its UEs keep, [u, S]."""
        batches = [{role: _arrays(batch) for role, batch in step.items()} for step in steps]
        own = self._rows(kept, start, batches[0]["support"])
        directions, now, loss, meta_loss = self._each(self._update, start, start.ndim == 2, (batches, own))
        sums.add(directions)
        return Losses(loss, meta_loss, None if self.method is None else now)

    def evaluation(
        self, parameters: Tensor, train: Batch, test: Batch, training: LocalTraining, kept: Tensor | None = None
    ) -> Tested:
        """Losses before and after adaptation on the whole training shards, and what both models say of the tests."""
        engine, own = replace(self, training=training), self._rows(kept, parameters, _arrays(train))
        found = engine._each(engine._evaluate, parameters, False, (_arrays(train), test.inputs, own))
        tests = (TestOutputs(out, test.targets, test.weights, self.task, self._losses_on(test)) for out in found[2:])
        return Tested(*found[:2], *tests)

    def _rows(self, kept: Tensor | None, params: Tensor, batch: Arrays) -> Tensor:
        """What each UE of a chunk keeps, [u, S]; those whose rows are not given begin."""
        count = len(batch[0])
        if kept is not None or self.method is None:
            return params.new_empty(count, 0) if kept is None else kept
        first = self.method.first_kept(params if params.ndim == 1 else params[0], self.task.spec)
        return first.expand(count, -1)

    def _losses_on(self, test: Batch) -> Callable[[Tensor], Tensor]:
        """Mean losses [u] of outputs [u, n, ...]."""

        def losses(outputs: Tensor) -> Tensor:
            found: Tensor = self._each(self._test_loss, outputs, True, (test.targets, test.weights))[0]
            return found

        return losses

    def _each(self, function: Callable[..., tuple[Tensor, ...]], parameters: Tensor, rows: bool, data: Any) -> Any:
        # fused kernels of attention and of recurrent layers cannot be differentiated twice
        recurrent = any(isinstance(part, nn.RNNBase) for part in self.task.module.modules())
        with sdpa_kernel(SDPBackend.MATH), _without_cudnn() if recurrent else nullcontext():
            return self._each_by_math(function, parameters, rows, data)

    def _each_by_math(
        self, function: Callable[..., tuple[Tensor, ...]], parameters: Tensor, rows: bool, data: Any
    ) -> Any:
        if not self.one_by_one:
            return vmap(function, in_dims=(0 if rows else None, 0))(parameters, data)
        count = torch.utils._pytree.tree_leaves(data)[0].shape[0]
        results = []
        for ue in range(count):
            own = torch.utils._pytree.tree_map(lambda array, ue=ue: array[ue], data)
            results.append(function(parameters[ue] if rows else parameters, own))
        return tuple(torch.stack(parts) for parts in zip(*results, strict=True))

    def _update(self, start: Tensor, data: tuple[Sequence[dict[str, Arrays]], Tensor]) -> tuple[Tensor, ...]:
        """Direction, what is kept now, and the first step's losses of one UE."""
        steps, kept = [FlatCalculus(self.task, batches) for batches in data[0]], data[1]
        if self.method is None:
            total, _, losses = descended(steps, start, self.training)
            return total, kept, *losses
        local = self.method.local(steps, start, kept, self.training)
        return local.direction, local.kept, local.loss, local.meta_loss

    def _evaluate(self, parameters: Tensor, data: tuple[Arrays, Tensor, Tensor]) -> tuple[Tensor, ...]:
        train, inputs, kept = data
        calculus = FlatCalculus(self.task, {"support": train})
        theta, loss = self._personal(calculus, parameters, kept)
        meta_loss = calculus.loss(theta)
        loss = meta_loss if loss is None else loss
        return loss, meta_loss, self.task.outputs(theta, inputs), self.task.outputs(parameters, inputs)

    def _personal(self, ue: FlatCalculus, params: Tensor, kept: Tensor) -> tuple[Tensor, Tensor | None]:
        """The model a UE is evaluated with, and its loss before; None: nothing came between."""
        if self.method is not None:
            return self.method.personal(ue, params, kept, self.training), ue.loss(params)
        theta, path = adapted(ue, params, self.training, keep=False)
        return theta, path[0].loss if path else None

    def _test_loss(self, outputs: Tensor, test: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        """Mean loss of outputs [n, ...] for targets and weights of one UE."""
        targets, weights = test
        return ((self.task.loss(outputs, targets) * loss_weights(targets, weights, self.task.mass)).sum(),)


def _without_cudnn() -> AbstractContextManager[None]:
    flags: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=False)
    return flags


def _arrays(batch: Batch) -> Arrays:
    return batch.inputs, batch.targets, batch.weights
