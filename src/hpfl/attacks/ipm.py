"""Attack `ipm`: all send the honest mean turned round, so that the inner product with it becomes negative."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.attacks.attack import Attack
from hpfl.options import Options, option
from hpfl.registry import part


class InnerProductOptions(Options):
    """How long what is sent is."""

    epsilon: float = option(0.5, "times the honest mean; above (n - m) / m the plain mean turns round", gt=0)


@part(options=InnerProductOptions)
@dataclass(frozen=True)
class InnerProduct(Attack):
    """All send `-epsilon` times the mean of the honest updates (Xie et al., 2019).

    "Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation", UAI 2019, equation 1: a small
    epsilon stays among the honest and is chosen by rules that look at distances, a large one turns a mean round.
    """

    options: InnerProductOptions

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """The same for all of them."""
        mean = (honest if len(honest) else own).to(torch.float64).mean(dim=0)
        return (-self.options.epsilon * mean).to(own.dtype).expand_as(own).clone()
