"""Scales that a cell agrees on before it codes: a single UE's own largest number would say something of that UE.

Levels of a codec lie between `-M` and `M` of a bucket of numbers. Under masks all UEs of a cell need the same `M`, and
the edge knows sums alone. So each UE adds to the sum a word for each bucket, 1 (times its weight) where its largest
number was above `M` and was clipped. The edge learns the share `c` of those, and the next `M` is `M exp(2 (c - q))`: it
seeks the quantile above which a share `q` of UEs is clipped (Andrew et al., Differentially private learning with
adaptive clipping, NeurIPS 2021, eq. 2, with a rate of 2). Where all are clipped `M` grows sixfold, and falls by a fifth
where nobody is: too small a scale shortens a few steps, too large a one is noise in many.
"""

import torch
from torch import Tensor

RATE, CLIPPED_SHARE = 2.0, 0.1
"""q, of the UEs of a cell, those whose largest number in a bucket is meant to be clipped."""


def next_scales(scales: Tensor, clipped: Tensor, *, least: float, most: float) -> Tensor:
    """The scales after a round in which a share `clipped` of the cell was, in float32, between the two limits."""
    moved = scales.to(torch.float64) * torch.exp(RATE * (clipped.to(torch.float64) - CLIPPED_SHARE))
    return moved.clamp(least, most).to(torch.float32)
