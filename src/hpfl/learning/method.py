"""Methods: the UE's side of a round as one thing, written for one UE with flat vectors.

A method says what a UE keeps between rounds, which parameters travel, what its local update is, and which model it is
evaluated with. It speaks to a calculus on the UE's batches; a cohort runs it for many UEs at once (`torch.func.vmap`),
so it is plain tensor code: nothing written in place, no look at values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from torch import Tensor

from hpfl.learning.objective import OBJECTIVES, Calculus, Gradient, LocalTraining, Role, adapted
from hpfl.learning.task import ParameterSpec
from hpfl.registry import Registry


@dataclass(frozen=True)
class Local:
    """What one UE's local update yields."""

    direction: Tensor  # [P]: (w_start - w_end) / outer_lr; what does not travel is of no account
    kept: Tensor  # [S]: what the UE keeps now
    loss: Tensor  # f(w) on the first local step's batch
    meta_loss: Tensor  # the same of its personal model


class UeCalculus(Protocol):
    """Losses and their derivatives on the batches of one UE; points and directions are flat vectors [P].

    A role names one of a local step's batches; where only one was drawn, it stands for all of them.
    """

    @property
    def spec(self) -> ParameterSpec:
        """Names and places of the parameters in a flat vector."""

    @property
    def active(self) -> Tensor:
        """Whether the UE takes this local step, a boolean: with epochs, UEs of few samples take fewer than others."""

    def loss(self, point: Tensor, role: Role = "support") -> Tensor:
        """The UE's loss on one batch."""

    def gradient(self, point: Tensor, role: Role = "support", *, keep: bool = False) -> Gradient:
        """Loss and its gradient (`direction`) on one batch; `keep` says that `hessian_vector` will be asked of it."""

    def hessian_vector(self, at: Gradient, direction: Tensor) -> Tensor:
        """Hessian of the loss on the Hessian batch, at the point of a kept gradient, times a direction."""

    def moved(self, point: Tensor, scale: float, direction: Tensor) -> Tensor:
        """`point + scale * direction`."""

    def plus(self, direction: Tensor, scale: float, other: Tensor) -> Tensor:
        """`direction + scale * other`."""


class Method(Protocol):
    """The UE's side of a round."""

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """Numbers S that a UE keeps between rounds, as one flat vector."""

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """What a UE keeps that begins with the model `params` [P], [S]."""

    def travels(self, spec: ParameterSpec) -> Tensor | None:
        """Which parameters travel, bool [P]; None: all. The receiver keeps its own value of the others."""

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The local update from `params` [P]: a calculus for each local step, on the batches drawn for it."""

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The model [P] that the UE is evaluated with; its calculus is on the whole training shard."""


METHODS: Registry[Callable[..., Method]] = Registry(
    "method",
    traits={"objective": False, "reads": None, "epochs": False, "silent": False, "counts_ues": False},
    called=(),
    made=("numbers_kept", "first_kept", "travels", "local", "personal"),
)
"""What makes a method; one with options is called with the keyword `options`.

The trait `objective` says that it is one of the personalised objectives, which keep nothing and have faster engines;
`reads`, which of the keys `inner_lr` and `inner_steps` matter to it (None: both may); `epochs`, that it leaves a UE as
it is in a step that is not `active`; `silent`, that nothing travels on purpose; `counts_ues`, that
a part of its updates counts by the share of the UEs that were heard, so that an edge may not average twice in a round.
"""


class BaseMethod:
    """What most methods share: UEs keep nothing, send everything, and are evaluated after the inner steps."""

    roles: Sequence[Role] = ("support", "query")
    """The batches that a UE draws for one local step, where they are drawn independently."""

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """Nothing."""
        return 0

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """Nothing, [0]."""
        return params[:0]

    def travels(self, spec: ParameterSpec) -> Tensor | None:
        """Everything."""
        return None

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The model after the inner steps on the training shard."""
        theta: Tensor = adapted(ue, params, training, keep=False)[0]
        return theta


class ObjectiveMethod(Method, Protocol):
    """A method that is one of the objectives: every engine knows these, and none needs the method itself."""

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training by the objective's name."""


def is_objective(method: Method) -> TypeGuard[ObjectiveMethod]:
    """Whether a method is one of the objectives, which run on engines of their own."""
    return hasattr(method, "as_objective")


def says_at_once(method: Method) -> bool:
    """Whether a method also says what its local update is for many UEs at once, in place (`at_once`)."""
    return hasattr(method, "at_once")


def is_silent(method: Method | None) -> bool:
    """Whether nothing travels by a method, on purpose."""
    return bool(getattr(method, "silent", False))


def shared_beside(method: Method | None, spec: ParameterSpec) -> Mapping[str, tuple[int, ...]]:
    """Names and shapes of what a method shares beside the model, which travels with it; most share nothing more."""
    share = getattr(method, "beside", None)
    return {} if share is None else share(spec)


def roles_of(method: Method | None, training: LocalTraining) -> Sequence[Role]:
    """The batches that a UE draws for one local step."""
    if method is None:
        return training.roles
    if training.batch_size is None or training.batches == "shared":
        return ("support",)
    return tuple(getattr(method, "roles", BaseMethod.roles))


def descended(steps: Sequence[Calculus], start: Any, training: LocalTraining) -> tuple[Any, Any, tuple[Tensor, Tensor]]:
    """All local steps of the objective that `training` names, from `start`.

    The sum of their directions, `(w_start - w_end) / outer_lr`, where they end, and the first step's two losses.
    """
    objective = OBJECTIVES.get(training.objective)
    point, total, first = start, None, None
    for calculus in steps:
        result = objective(calculus, point, training)
        first = first or result
        total = result.direction if total is None else total + result.direction
        point = point - training.outer_lr * result.direction
    assert first is not None
    return total, point, (first.loss, first.meta_loss)


def with_entries(vector: Tensor, entries: Tensor, values: Tensor) -> Tensor:
    """A vector [P] with other values [h] in some places [h]."""
    return vector.index_copy(0, entries.to(vector.device), values)


def num_travelling(method: Method | None, spec: ParameterSpec) -> int:
    """How many parameters a UE sends: what the uplink is given, and bits on the air are counted of."""
    travels = None if method is None else method.travels(spec)
    return spec.num_parameters if travels is None else int(travels.sum())
