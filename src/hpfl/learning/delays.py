"""By how many rounds a chain that feeds errors back delays what it is given."""

import torch
from torch import Tensor

from hpfl.learning.draws import Draws
from hpfl.learning.uplink import Uplink


def delay(chain: Uplink, updates: Tensor, draws: Draws) -> Tensor:
    """Rounds by which updates [u, n] arrive later, in the mean over their squares, [u] in float64.

    0 where nothing is fed back. A step that does not know has a delay of `1 / delta - 1`, with `delta` the share of the
    squares that one trial hands on: what is left of a sum to which 1 is added and of which `delta` is taken.
    """
    feeding = next((step for _, step in chain.steps if getattr(step, "feeds_back", False)), None)
    if feeding is None:
        return torch.zeros(len(updates), dtype=torch.float64, device=updates.device)
    known = feeding.delay(updates) if hasattr(feeding, "delay") else None
    return _tried(chain, updates, draws) if known is None else known.to(torch.float64)


def _tried(chain: Uplink, updates: Tensor, draws: Draws) -> Tensor:
    kept = updates.new_zeros(len(updates), chain.numbers_kept(updates.shape[1]))
    left = chain.variance(updates, kept, draws)
    whole = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).square()
    return torch.div(left, (whole - left).clamp(min=torch.finfo(torch.float64).tiny))
