"""How updates are joined: by rules of one signature, of which the weighted mean is shipped."""

from collections.abc import Callable, Sequence

import torch

from hpfl.registry import Registry
from hpfl.training.state import EdgeUpdate

Combine = Callable[[Sequence[EdgeUpdate]], torch.Tensor]
"""From the updates that arrived, in whatever order, to the step direction in float64."""

COMBINES: Registry[Combine] = Registry("combine")


@COMBINES.register("mean")
def weighted_mean(updates: Sequence[EdgeUpdate]) -> torch.Tensor:
    """The weighted mean, `sum_k n_k u_k / sum_k n_k`.

    In float64 and in order of the members, so that the order of arrival is no matter.
    """
    ordered = sorted(updates, key=lambda update: update.member)
    total = sum(update.weight for update in ordered)
    mean = torch.zeros_like(ordered[0].update, dtype=torch.float64)
    for update in ordered:
        mean += update.update.to(torch.float64) * (update.weight / total)  # two roundings, no FMA: anyone can redo it
    return mean
