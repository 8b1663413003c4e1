"""Rule `centred-clipping`: the last aggregate, moved by what came no further than a radius from it."""

from collections.abc import Sequence

import numpy as np
import torch

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, CombineError, Contribution, RuleState
from hpfl.training.rules.rows import distances, of_finite, summed

CENTRE = "centre"


class CentredClippingOptions(Options):
    """How far an update counts."""

    tau: float = option(10.0, "radius around the last aggregate; 0: the median distance of what came", ge=0)
    iterations: int = option(1, "steps of clipping and moving", ge=1, le=1000)


@part(options=CentredClippingOptions, weighs=False)
@of_finite
def centred_clipping(
    contributions: Sequence[Contribution], state: RuleState, *, options: CentredClippingOptions
) -> Combined:
    """The last aggregate, moved by the mean of differences from it that are clipped to tau (Karimireddy et al., 2021).

    `v <- v + 1/n sum_i (u_i - v) min(1, tau / |u_i - v|)`: section 4 of "Learning from history for Byzantine robust
    optimization", ICML 2021, with its tau = 10 and one step. The norms of updates differ from model to model: a tau
    above them all makes it the mean, and 0 takes the median distance of each round. It remembers v, 0 at first. One
    update moves it by tau / n at most. Weights are not read.
    """
    length, count = contributions[0].update.numel(), len(contributions)
    centre = state.get(CENTRE, torch.zeros(length, dtype=torch.float64)).to(contributions[0].update.device)
    if centre.shape != (length,):
        raise CombineError(f"centred clipping remembers {tuple(centre.shape)} numbers; updates have {length}")
    shares = np.zeros(count)
    for _ in range(options.iterations):
        away = distances(contributions, centre)
        tau = options.tau or float(np.median(away))
        pulls = np.where(away > tau, tau / np.where(away > tau, away, 1.0), 1.0) / count
        centre = (1.0 - float(pulls.sum())) * centre + summed(contributions, pulls)
        shares = shares * (1.0 - pulls.sum()) + pulls
    return Combined(centre, shares, {CENTRE: centre})
