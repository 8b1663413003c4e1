"""Gradients and Hessian-vector products of many UEs' own losses at once, and the size of their Hessians."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.batches import Batch, Samples
from hpfl.learning.general import Arrays, GeneralEngine
from hpfl.learning.memory import peak_bytes
from hpfl.learning.objective import LocalTraining
from hpfl.learning.packing import Layout, Limit, whole_batch
from hpfl.learning.precision import repeatable
from hpfl.learning.task import Task

Apply = Callable[[Tensor], Tensor]
"""Symmetric operators, one for each row: from [n, P] to [n, P]."""


_PADDING = 0.08  # share of padding samples in a chunk
_MOST_AT_ONCE = 16  # UEs per chunk on a CPU: more is no faster there


@dataclass(frozen=True)
class Landscape:
    """The losses `f_i` of some UEs on their whole shards; row `i` of every result is UE `ues[i]`'s."""

    task: Task
    shares: Tensor  # [n]: each UE's weight in the mean loss, adding up to 1
    chunks: tuple[tuple[Tensor, Batch], ...]  # rows, and their samples
    one_by_one: bool

    @staticmethod
    def of(task: Task, samples: Samples, *, ues: IntArray, shares: FloatArray, memory_gb: float = 4.0) -> "Landscape":
        """Pack the shards of `ues` into chunks that fit the memory."""
        device = samples.inputs.device
        task = task.to(device, samples.dtype)
        samples = replace(samples, mass=task.mass)
        plain = LocalTraining(inner_lr=0.0, outer_lr=1.0)
        alone = GeneralEngine.choose(task, plain, samples.one_ue(2)).one_by_one
        weights = torch.as_tensor(shares / shares.sum(), dtype=samples.dtype, device=device)
        layout = Layout.of(samples.shards.sizes, _PADDING)
        limit = _fitting(task, samples, layout, alone=alone, memory_gb=memory_gb)
        parts = layout.chunks(ues, np.zeros_like(ues), limit)
        chunks = tuple(
            (torch.from_numpy(at).to(device), whole_batch(samples, ues[at], _width(layout, ues[at]))) for at in parts
        )
        return Landscape(task, weights, chunks, alone)

    @property
    def num_ues(self) -> int:
        """Number n of UEs."""
        return len(self.shares)

    def gradients(self, points: Tensor) -> Tensor:
        """`grad f_i` [n, P] at one point [P] for all, or at a point of each [n, P]."""
        return self._each(lambda point, arrays: grad(self._loss(arrays))(point), points)

    def hessian_vectors(self, points: Tensor, vectors: Tensor) -> Tensor:
        """`H_i v_i` [n, P], for a vector of each UE, at one point for all or at a point of each."""

        def product(point: Tensor, vector: Tensor, arrays: Arrays) -> Tensor:
            return _pullback(self._loss(arrays), point)(vector)

        return self._each(product, points, vectors)

    def mean_hessian_vectors(self, point: Tensor, vectors: Tensor) -> Tensor:
        """`H v` [r, P] with the Hessian of the mean loss, for several vectors [r, P]."""
        total = torch.zeros_like(vectors)
        with repeatable(), sdpa_kernel(SDPBackend.MATH):
            for rows, batch in self.chunks:
                weights = batch.weights * self.shares[rows].unsqueeze(1)
                arrays = (batch.inputs.flatten(0, 1), batch.targets.flatten(0, 1), weights.flatten())
                pulled = _pullback(self._loss(arrays), point)
                total += torch.stack([pulled(v) for v in vectors]) if self.one_by_one else vmap(pulled)(vectors)
        return total

    def mean(self, rows: Tensor) -> Tensor:
        """The mean over UEs of [n, P], in the weights of the mean loss."""
        return self.shares @ rows

    def diversity(self, rows: Tensor) -> float:
        """Root of the mean squared distance of [n, P] from their mean (Assumption 4 for gradients)."""
        return self.root_mean_square(torch.linalg.vector_norm(rows - self.mean(rows), dim=1))

    def root_mean_square(self, values: Tensor) -> float:
        """Root of the mean over UEs of the squares of [n]."""
        return float((self.shares.double() @ values.double().square()).sqrt())

    def _loss(self, arrays: Arrays) -> Callable[[Tensor], Tensor]:
        inputs, targets, weights = arrays
        return lambda point: (self.task.loss(self.task.outputs(point, inputs), targets) * weights).sum()

    def _each(self, function: Callable[..., Tensor], points: Tensor, *more: Tensor) -> Tensor:
        """The function of every UE, with its rows of the arguments."""
        result = points.new_empty(self.num_ues, points.shape[-1])
        with repeatable(), sdpa_kernel(SDPBackend.MATH):  # fused attention cannot be differentiated twice
            for rows, batch in self.chunks:
                own = points if points.ndim == 1 else points[rows]
                arrays = (batch.inputs, batch.targets, batch.weights)
                result[rows] = self._mapped(function, own, *(array[rows] for array in more), arrays)
        return result

    def _mapped(self, function: Callable[..., Tensor], points: Tensor, *more: Any) -> Tensor:
        if not self.one_by_one:
            dims = (0 if points.ndim == 2 else None, *[0] * len(more))
            mapped: Tensor = vmap(function, in_dims=dims)(points, *more)
            return mapped
        arrays: Sequence[Any] = [*more[:-1], list(zip(*more[-1], strict=True))]
        owners = points if points.ndim == 2 else points.expand(len(arrays[-1]), -1)
        return torch.stack([function(*own) for own in zip(owners, *arrays, strict=True)])


@dataclass(frozen=True)
class Norms:
    """Spectral norms [n] of symmetric operators, from below, and unit vectors [n, P] on which they were reached."""

    values: Tensor
    vectors: Tensor


def spectral_norms(apply: Apply, start: Tensor, *, most_steps: int, tolerance: float = 0.01) -> Norms:
    """Largest |eigenvalue| of every row's operator by power iteration from `start` [n, P].

    `‖A v‖` of a unit vector never exceeds the norm and, for a symmetric `A`, never falls from step to step; the
    iteration ends when neither the largest of them nor their root mean square grows by more than `tolerance`.
    """
    vectors, values = _unit(start), start.new_zeros(len(start))
    for _ in range(most_steps):
        images = apply(vectors)
        grown = torch.linalg.vector_norm(images, dim=1)
        settled = bool((_sizes(grown) <= _sizes(values) * (1 + tolerance)).all())
        values = torch.maximum(values, grown)
        vectors = torch.where((grown > 0).unsqueeze(1), _unit(images), vectors)
        if settled:
            break
    return Norms(values, vectors)


@dataclass(frozen=True)
class Leading:
    """The largest eigenvalues (by size) of one symmetric operator and their vectors [r, P]: what is left is a tail."""

    values: Tensor
    vectors: Tensor

    @property
    def tail(self) -> float:
        """About the norm of what is left out: the smallest |eigenvalue| kept, or 0 where all are."""
        return 0.0 if len(self.values) == self.vectors.shape[1] else float(self.values.abs().min())

    def apply(self, vectors: Tensor) -> Tensor:
        """The operator cut down to these eigenvectors, times [n, P]."""
        return (vectors @ self.vectors.T * self.values) @ self.vectors


def leading_eigenpairs(apply: Apply, start: Tensor, *, steps: int) -> Leading:
    """The leading eigenpairs of one operator by subspace iteration from `start` [r, P], r at most P."""
    basis = _orthonormal(start)
    for _ in range(steps - 1):
        basis = _orthonormal(apply(basis))
    small = basis @ apply(basis).T
    values, rotation = torch.linalg.eigh(((small + small.T) / 2).double())
    return Leading(values.to(basis.dtype), rotation.T.to(basis.dtype) @ basis)


def _pullback(loss: Callable[[Tensor], Tensor], point: Tensor) -> Callable[[Tensor], Tensor]:
    """`v -> H v` of a loss at a point, by reverse over reverse; the Hessian is symmetric."""
    pulled: Any = vjp(grad(loss), point)[1]

    def product(vector: Tensor) -> Tensor:
        result: Tensor = pulled(vector)[0]
        return result

    return product


def _sizes(values: Tensor) -> Tensor:
    return torch.stack([values.max(), torch.linalg.vector_norm(values)])


def _unit(rows: Tensor) -> Tensor:
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    unit: Tensor = rows / norms.clamp(min=torch.finfo(rows.dtype).tiny)
    return unit


def _orthonormal(rows: Tensor) -> Tensor:
    basis: Tensor = torch.linalg.qr(rows.T)[0]
    return basis.T.contiguous()


def _width(layout: Layout, ues: IntArray) -> int:
    return layout.widths[int(layout.bucket_of[ues[0]])]


def _fitting(task: Task, samples: Samples, layout: Layout, *, alone: bool, memory_gb: float) -> Limit:
    """UEs of a bucket whose Hessian-vector products fit the memory, by the measured need of one."""
    point = task.flat_template()
    most = _MOST_AT_ONCE if point.device.type == "cpu" else 2**31

    def limit(bucket: int) -> int:
        ue = layout.members[bucket][:1]
        batch = whole_batch(samples, ue, layout.widths[bucket])
        one = Landscape(
            task, point.new_ones(1), ((torch.zeros(1, dtype=torch.long, device=point.device), batch),), alone
        )
        need = peak_bytes(lambda: one.hessian_vectors(point, point.unsqueeze(0))) + batch.inputs.nbytes
        return int(min(max(0.25 * memory_gb * 1e9 // need, 1), most))

    return limit
