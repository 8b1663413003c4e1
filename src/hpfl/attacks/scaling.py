"""Attack `scaling`: an honest update, as long as a norm bound lets it be."""

from dataclasses import dataclass

from torch import Tensor

from hpfl.attacks.attack import Attack, at_norm, usual_norm
from hpfl.attacks.sign_flip import BoundOptions
from hpfl.registry import part


@part(options=BoundOptions)
@dataclass(frozen=True)
class Scaling(Attack):
    """Each sends its own update at the largest norm that a bound on norms lets pass, to have the model to itself."""

    options: BoundOptions

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """`u`, at `ratio` times the usual norm."""
        return at_norm(own, self.options.ratio * usual_norm(own, honest))
