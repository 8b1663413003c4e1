"""Attacks: what hostile members make of their samples, and what they send in place of their updates.

An attack is a class and one line that registers it: `@ATTACKS.register("sleep")`. Hostile members know each other and
see the honest updates of their group, which are those of the same cell or, for edges, of all edges.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.registry import Registry


@dataclass(frozen=True)
class Labelled:
    """Samples with their classes: inputs [m, ...], targets [m], and how many classes there are."""

    inputs: Tensor
    targets: Tensor
    num_classes: int


class Attack:
    """What hostile members do; a class derived from it says what is other than honest."""

    def poisoned(self, samples: Labelled, lots: FloatArray) -> Labelled:
        """The samples that hostile UEs train on, in place of their own; `lots` [m] are uniform in [0, 1)."""
        return samples

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """What hostile members send, [h, P], who would have sent `own` [h, P] beside `honest` updates [n, P]."""
        return own

    def tests(self, samples: Labelled) -> tuple[Labelled, Tensor] | None:
        """Test samples as the attack would have them answered, and which of them count [m]; None: it has no aim."""
        return None


_HERE = "hpfl.attacks"
ATTACKS: Registry[Callable[..., Attack]] = Registry(
    "attack",
    traits={"poisons": False, "columns": ()},
    shipped={
        "none": f"{_HERE}.attack:Nobody",
        "sign-flip": f"{_HERE}.sign_flip:SignFlip",
        "scaling": f"{_HERE}.scaling:Scaling",
        "alie": f"{_HERE}.alie:LittleIsEnough",
        "ipm": f"{_HERE}.ipm:InnerProduct",
        "label-flip": f"{_HERE}.label_flip:LabelFlip",
        "backdoor": f"{_HERE}.backdoor:Backdoor",
    },
    called=(),
    made=("poisoned", "crafted", "tests"),
)
"""Trait `poisons`: hostile UEs train on other samples than they were dealt. Trait `columns`: the names under which its
success on its own `tests` is recorded, for the personal model and for the shared one."""


class Nobody(Attack):
    """Nobody is hostile."""


def at_norm(rows: Tensor, norm: float) -> Tensor:
    """Rows [h, P] at a norm; those of 0 stay."""
    own = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64, keepdim=True)
    return rows * torch.where(own > 0, norm / own, 1.0).to(rows.dtype)


def usual_norm(own: Tensor, honest: Tensor) -> float:
    """The median norm of the honest updates; of their own, where nobody else is there."""
    seen = honest if len(honest) else own
    return float(torch.linalg.vector_norm(seen, dim=1, dtype=torch.float64).median())
