"""ReLU over numbers that nobody else reads: on a CPU they are written over, and so are the errors on their way back."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.chain.free import Relu


@dataclass(frozen=True)
class OverwritingRelu(Relu):
    """`max(0, z)` behind a layer that does not need its own outputs again."""

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, in place."""
        if rows.is_cuda:
            return super().forward(rows)
        return rows.relu_(), rows

    def pull(self, errors: Tensor, kept: Tensor) -> Tensor:
        """Errors where the output is positive, in place."""
        if errors.is_cuda:
            return super().pull(errors, kept)
        result: Tensor = torch.ops.aten.threshold_backward.grad_input(errors, kept, 0, grad_input=errors)
        return result
