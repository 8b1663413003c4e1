"""Personalised objectives: what a UE's update direction is, written once for every way of computing gradients.

An objective speaks to a `Calculus` (gradients, moves and Hessian-vector products on the batches of a UE). The general
calculus works on flat vectors with `torch.func`, the layer-wise one on factored directions of many UEs at once; an
objective cannot tell them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor

from hpfl.learning.faults import LearningError
from hpfl.registry import Registry

Role = Literal["support", "query", "hessian"]
Batches = Literal["shared", "independent"]


@dataclass(frozen=True)
class LocalTraining:
    """How a UE turns the model it received into an update."""

    inner_lr: float  # alpha, eq. (5); 0 is plain FedAvg
    outer_lr: float  # beta
    objective: str = "exact"
    inner_steps: int = 1
    local_steps: int = 1
    batch_size: int | None = None  # None: full batch
    batches: Batches = "shared"
    hessian_free_delta: float = 1e-3
    local_epochs: int = 0  # passes over a UE's shard in mini-batches; 0: as many steps as `local_steps` says

    def __post_init__(self) -> None:
        _check(self.inner_lr >= 0, "inner_lr", self.inner_lr, "a number not below 0")
        _check(self.outer_lr > 0, "outer_lr", self.outer_lr, "a positive number")
        _check(self.inner_steps >= 0, "inner_steps", self.inner_steps, "a whole number not below 0")
        _check(self.local_steps >= 1, "local_steps", self.local_steps, "a whole number above 0")
        _check(self.local_epochs >= 0, "local_epochs", self.local_epochs, "a whole number not below 0")
        _check(self.batch_size is None or self.batch_size >= 1, "batch_size", self.batch_size, "above 0, or none")
        _check(self.batches in ("shared", "independent"), "batches", self.batches, '"shared" or "independent"')
        _check(self.hessian_free_delta > 0, "hessian_free_delta", self.hessian_free_delta, "a positive number")
        OBJECTIVES.get(self.objective)

    @property
    def in_epochs(self) -> bool:
        """Whether UEs take as many mini-batches as their samples make, and so unequal numbers of steps."""
        return self.local_epochs > 0 and self.batch_size is not None

    @property
    def whole_steps(self) -> int:
        """Local steps of full batches: an epoch is one of them."""
        return self.local_epochs or self.local_steps

    @property
    def adapts(self) -> bool:
        """Whether there is an inner step at all."""
        return self.inner_lr > 0 and self.inner_steps > 0

    @property
    def roles(self) -> tuple[Role, ...]:
        """The batches a UE draws for one local step; full batches are all the same one."""
        if self.batch_size is None or self.batches == "shared" or not self.adapts:
            return ("support",)
        needed: tuple[Role, ...] = OBJECTIVES.part(self.objective).traits["roles"]
        return needed


@dataclass(frozen=True)
class Gradient:
    """A gradient at a point: its loss, its direction, and whatever the calculus keeps to differentiate it again."""

    point: Any
    loss: Tensor
    direction: Any
    tape: Any = None


class Calculus(Protocol):
    """Gradients on the batches of one UE (or of many at once); points and directions are the calculus's own."""

    def gradient(self, point: Any, role: Role, *, keep: bool = False) -> Gradient:
        """Gradient of the loss on one batch; `keep` says that `hessian_vector` will be asked of it."""

    def moved(self, point: Any, scale: float, direction: Any) -> Any:
        """`point + scale * direction`."""

    def plus(self, direction: Any, scale: float, other: Any) -> Any:
        """`direction + scale * other`."""

    def hessian_vector(self, at: Gradient, direction: Any) -> Any:
        """Hessian of the loss on the Hessian batch, at the point of a kept gradient, times a direction."""


@dataclass(frozen=True)
class MetaGradient:
    """What one local step of a UE yields: its direction, `f(w)` and `F(w)`."""

    direction: Any
    loss: Tensor
    meta_loss: Tensor


Objective = Callable[[Calculus, Any, LocalTraining], MetaGradient]

OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    traits={"roles": ("support", "query", "hessian"), "twice": False, "differences": False},
    called=("calculus", "start", "training"),
)
"""Traits: the batches (`roles`) it needs, whether it differentiates `twice`, and whether it takes `differences`."""


def adapted(calculus: Calculus, start: Any, training: LocalTraining, *, keep: bool) -> tuple[Any, list[Gradient]]:
    """The adapted point `theta` after all inner steps (eq. 5), and the gradients that led there."""
    point, path = start, []
    for _ in range(training.inner_steps if training.adapts else 0):
        path.append(calculus.gradient(point, "support", keep=keep))
        point = calculus.moved(point, -training.inner_lr, path[-1].direction)
    return point, path


def meta_gradient(direction: Any, path: list[Gradient], outer: Gradient) -> MetaGradient:
    """A direction with the losses before and after adaptation."""
    return MetaGradient(direction, path[0].loss if path else outer.loss, outer.loss)


def _check(holds: bool, field: str, value: object, wanted: str) -> None:
    if not holds:
        raise LearningError(f"learning.{field} is {value!r}; wanted {wanted}")
