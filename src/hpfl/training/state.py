"""What a run is between two rounds (`TrainState`), and what passes between cloud, edges and the loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning.kept import AnyRows
from hpfl.network.links import Links
from hpfl.network.places import Places
from hpfl.planning.broadcast import Downlink
from hpfl.planning.codings import Codings
from hpfl.planning.problem import Memory, Plan
from hpfl.privacy.ledger import Spending
from hpfl.training.clock import ClockMemory
from hpfl.training.phases import Phases

if TYPE_CHECKING:
    from hpfl.training.cloud_step import Step

UNLESS_EMPTY = "unless empty"
"""Marks the fields of a state that a checkpoint holds only where something is in them."""


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """Exactly what a checkpoint holds; round `t` is the number of rounds done.

    Edges that `awaiting` marks have just received `params` and not yet computed on it; the others hold a pending
    update computed from the model of `base_round`. `clock` is the executor's own memory (work in flight).
    `kept` are rows [N, ...] that UEs keep between rounds, `cloud_rule` and `edge_rules` are what the combine rules
    remember, the latter by edge (`training/remembered.py`). `privacy` is the account of what has left the cells
    (`hpfl.privacy`). In most runs these four are empty.
    """

    round: int
    time_s: float
    params: torch.Tensor
    pending: torch.Tensor
    base_round: IntArray
    awaiting: BoolArray
    importance: FloatArray
    joules: FloatArray
    memory: Memory = field(default_factory=dict)
    clock: ClockMemory = field(default_factory=dict)
    kept: Mapping[str, AnyRows] = field(default_factory=dict, metadata={UNLESS_EMPTY: True})
    cloud_rule: Memory = field(default_factory=dict, metadata={UNLESS_EMPTY: True})
    edge_rules: Memory = field(default_factory=dict, metadata={UNLESS_EMPTY: True})
    privacy: Spending = field(default_factory=dict, metadata={UNLESS_EMPTY: True})

    @property
    def staleness(self) -> IntArray:
        """Rounds since each edge received its model, tau in the paper's section 3.3."""
        return self.round - self.base_round

    def but(self, **changes: Any) -> "TrainState":
        """This state with some fields changed."""
        return replace(self, **changes)

    def to(self, device: torch.device) -> "TrainState":
        """This state with all its tensors on a device."""
        return replace(self, **{name: _moved(value, device) for name, value in vars(self).items()})


def _moved(value: Any, device: torch.device) -> Any:
    """A tensor, or a mapping with tensors in it, on a device; everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return {key: _moved(one, device) for key, one in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, kw_only=True)
class EdgeUpdate:
    """What travels upward: the mean meta-gradient `u_k` of one edge, and the round whose model it was computed on."""

    member: int
    base_round: int
    update: torch.Tensor
    weight: float
    importance: float


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Step 1 of a round: this round's links, and every edge's pending update with its importance.

    Where UEs sent `sketches` [K, d] first, computing and sending them took `spent_s` seconds, `spent_bits` and, of each
    UE, `spent_j` joules (None: nothing). `renewal_s` is what each edge needs to compute on a new model, `codings` what
    the planner may choose from (None: nothing).
    `active` marks the edges that have an update to send (None: all). The others have no UEs; `dropped` marks those
    that lost their update since the last round, and `base_round` is what every edge holds now (None: as in the state).
    `num_below` edges had fewer UEs than they need, and `num_scaled` UEs scaled their update down to what masks allow.
    `kept` and `edge_rules` are those of the state once the edges have computed (None: as in the state).
    Where a broadcast takes time, `downlink` is what is known of it and `under` the edge that each UE is under, -1
    where it is not there. `places` are for those who watch (None: not known). `releases` [N] counts the noisy sums
    with each UE that edges made now (None: they are not noised). `num_anew` UEs had nothing left of what they had kept
    (None: nothing is kept, or it cannot be lost).
    """

    links: Links
    pending: torch.Tensor
    importance: FloatArray
    clock: ClockMemory
    sketches: FloatArray | None = None
    spent_s: float = 0.0
    spent_bits: float = 0.0
    spent_j: FloatArray | None = None
    renewal_s: FloatArray | None = None
    codings: Codings | None = None
    active: BoolArray | None = None
    dropped: BoolArray | None = None
    base_round: IntArray | None = None
    num_lost: int = 0
    num_below: int = 0
    num_scaled: int = 0
    kept: Mapping[str, AnyRows] | None = None
    edge_rules: Memory | None = None
    downlink: Downlink | None = None
    under: IntArray | None = None
    places: Places | None = None
    releases: IntArray | None = None
    num_anew: int | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Step 3 of a round: which updates reached the cloud, how long it took, and what it cost.

    Where UEs were lost on the way, `pending`, `importance`, `kept` and `edge_rules` are those of the UEs that are left.
    `dropped` edges lost their update, `num_below` of them because they heard fewer UEs than they need; `fresh` ones
    receive the new model though nothing of theirs was aggregated.
    """

    arrivals: tuple[EdgeUpdate, ...]
    latency_s: float
    uplink_bits: float
    joules: FloatArray
    clock: ClockMemory
    pending: torch.Tensor | None = None
    importance: FloatArray | None = None
    dropped: BoolArray | None = None
    fresh: BoolArray | None = None
    num_lost: int = 0
    num_below: int = 0
    phases: Phases | None = None
    kept: Mapping[str, AnyRows] | None = None
    edge_rules: Memory | None = None


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Step 5 of a round: the state once the edges have the new model, and what telling them took beyond nothing.

    `seconds` are those of both hops, `bits` those on the air, `joules` what each UE spent meanwhile (None: nothing) and
    `downlink_j` what sending and receiving took of cloud, edges and UEs. `hears` are the edges on whose air it was
    (None: a broadcast takes no time), `cell_bits` what each sent on with `cell_hz` after the cloud's `cloud_s` seconds;
    `num_missed` UEs hold an older model than theirs.
    """

    state: TrainState
    seconds: float = 0.0
    bits: float = 0.0
    joules: FloatArray | None = None
    downlink_j: float = 0.0
    hears: BoolArray | None = None
    cell_bits: FloatArray | None = None
    num_missed: int = 0
    cloud_s: float = 0.0
    cell_hz: FloatArray | None = None


class Executor(Protocol):
    """The one seam between virtual and real: everything in a round that is not a decision."""

    def observe(self, state: TrainState) -> Observation:
        """Let the awaiting edges compute; report links, pending updates and importance."""
        ...

    def execute(self, state: TrainState, observation: Observation, plan: Plan) -> Outcome:
        """Carry out the uploads of a plan."""
        ...

    def broadcast(self, state: TrainState, edges: BoolArray, observation: Observation, step: "Step") -> Heard:
        """Send the new model, or the `step` to it, to `edges`, which await its computation.

        `observation` is that of the round. The loop counts the time and the joules.
        """
        ...


def initial_state(params: torch.Tensor, *, num_edges: int, num_ues: int) -> TrainState:
    """Round 0: every edge holds the initial model and has nothing pending."""
    return TrainState(
        round=0,
        time_s=0.0,
        params=params,
        pending=torch.zeros((num_edges, params.numel()), dtype=params.dtype, device=params.device),
        base_round=np.zeros(num_edges, dtype=np.int64),
        awaiting=np.ones(num_edges, dtype=np.bool_),
        importance=np.zeros(num_edges),
        joules=np.zeros(num_ues),
    )
