"""Attack `sign-flip`: the opposite of the honest update, as long as a norm bound lets it be."""

from dataclasses import dataclass

from torch import Tensor

from hpfl.attacks.attack import Attack, at_norm, usual_norm
from hpfl.options import Options, option
from hpfl.registry import part


class BoundOptions(Options):
    """How long what is sent may be."""

    ratio: float = option(4.0, "its norm, over the median norm of the honest; deployments let four pass", gt=0)


@part(options=BoundOptions)
@dataclass(frozen=True)
class SignFlip(Attack):
    """Each sends the opposite of its update, at the largest norm that a bound on norms lets pass."""

    options: BoundOptions

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """`-u`, at `ratio` times the usual norm."""
        return -at_norm(own, self.options.ratio * usual_norm(own, honest))
