"""Attack `alie`: all send one vector that is off the honest mean by less than honest updates are off each other."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpfl.attacks.attack import Attack
from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.rng import normal_quantiles


class LittleIsEnoughOptions(Options):
    """How far off the mean."""

    z: float = option(1.5, "deviations off the mean; 0: the most that hides among the honest, by the numbers", ge=0)


@part(options=LittleIsEnoughOptions)
@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """All send `mean - z deviation` of the honest updates, coordinate by coordinate (Baruch et al., 2019).

    "A little is enough: circumventing defenses for distributed learning", NeurIPS 2019, algorithm 3; its experiments
    have z = 1.5. With z = 0 it is `z_max`, the quantile at `(n - m - s) / (n - m)` with `s = floor(n / 2 + 1) - m` for
    m of n who are hostile, which is 0 in small groups.
    """

    options: LittleIsEnoughOptions

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """The same for all of them."""
        seen = (honest if len(honest) else own).to(torch.float64)
        deviation, mean = torch.std_mean(seen, dim=0, correction=0)
        z = self.options.z or largest_z(len(own) + len(honest), len(own))
        return (mean - z * deviation).to(own.dtype).expand_as(own).clone()


def largest_z(count: int, hostile: int) -> float:
    """`z_max` of the paper's algorithm 3; no less than 0."""
    honest = count - hostile
    supporters = count // 2 + 1 - hostile
    if honest <= 0 or supporters <= 0:
        return 0.0
    share = np.clip((honest - supporters) / honest, 0.5, 1.0 - 1e-9)
    return float(normal_quantiles(np.array([share]))[0])
