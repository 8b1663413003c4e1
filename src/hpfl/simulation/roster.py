"""Who takes part: every edge round's UEs, from the moment it starts until its update is at the cloud or lost."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, IntArray
from hpfl.network.availability import TwoState
from hpfl.network.downlink import NOBODY
from hpfl.network.failures import struck
from hpfl.network.mobility import RandomWaypoint, Walk
from hpfl.network.places import Places
from hpfl.network.radio import Recorded, Recorder
from hpfl.network.sampling import Sampling, sampled
from hpfl.network.topology import Fleet
from hpfl.rng import Streams
from hpfl.training.clock import ClockMemory
from hpfl.training.held_rounds import holds_newest
from hpfl.training.state import TrainState

SERVES, AVAILABLE, MOVED, DISTANCE = "serves", "available", "moved_s", "distance_m"
_WALK = "walk/"


@dataclass(frozen=True, kw_only=True)
class Roster:
    """A round's UEs sorted by edge, and what became of the edges' rounds since the last plan.

    `starts` marks edges that begin an edge round now, `touched` those that go on with fewer UEs than they had, `idle`
    those that have nobody, `dropped` those that lost their update with the last of their UEs or by dying. `under` is
    the edge that each UE of the fleet is under, whether it takes part or not, and `NOBODY` where it is not there.
    Where an edge needs several UEs, one that has fewer has nobody; `num_below` counts those.
    """

    members: IntArray
    edge_of: IntArray
    starts: BoolArray
    touched: BoolArray
    idle: BoolArray
    dropped: BoolArray
    num_lost: int
    memory: ClockMemory
    under: IntArray
    num_below: int = 0


def everyone(fleet: Fleet, state: TrainState, newcomers: BoolArray | None = None) -> Roster:
    """The roster of a network without life: all UEs that train, always, under their own edges."""
    none = np.zeros(fleet.num_edges, dtype=np.bool_)
    members = np.arange(fleet.num_ues, dtype=np.int64) if newcomers is None else np.flatnonzero(~newcomers)
    return Roster(
        members=members,
        edge_of=fleet.edge_of_ue[members],
        starts=state.awaiting,
        touched=none,
        idle=none,
        dropped=none,
        num_lost=0,
        memory=state.clock,
        under=fleet.edge_of_ue if newcomers is None else np.where(newcomers, NOBODY, fleet.edge_of_ue),
    )


@dataclass(frozen=True, kw_only=True)
class Life:
    """What changes from round to round; each part may be absent. Everything it remembers is in the clock's memory.

    `newcomers` never train (None: everybody does). An edge with fewer UEs than it `needs` (None: one) has no update.
    """

    fleet: Fleet
    streams: Streams
    sampling: Sampling
    availability: TwoState | Recorded | None = None
    mobility: RandomWaypoint | None = None
    edge_death: float = 0.0
    record: Recorder | None = None
    newcomers: BoolArray | None = None
    needs: IntArray | None = None

    def roster(self, state: TrainState, delivered: BoolArray) -> Roster:
        """Move the network to this round, take leave of those who left, and fill the edge rounds that start."""
        edge_of_ue, walked = self._walked(state)
        available, seen = self._present(state)
        if self.record is not None and self.availability is not None:
            self.record("available", (state.round, 0), available)
        if self.newcomers is not None:
            available = available & ~self.newcomers
        serves, starts = self._serving(state), state.awaiting.copy()
        serves[(serves >= 0) & starts[serves]] = -1
        gone = (serves >= 0) & ~delivered & (~available | (serves != edge_of_ue))
        touched = _edges(serves[gone], starts.size)
        serves[gone] = -1
        dead = struck(self.streams.at("edge death", state.round), starts.size, self.edge_death) & ~starts
        few = ~starts & ~self._enough(serves)
        dropped = few | dead
        serves[(serves >= 0) & dropped[serves]] = -1
        starts |= dropped
        able = available & holds_newest(state, edge_of_ue)
        self._enlist(serves, able & (serves < 0) & starts[edge_of_ue], edge_of_ue, state.round)
        filled = self._enough(serves)
        serves[(serves >= 0) & ~filled[serves]] = -1
        members, edge_of = sorted_by_edge(serves)
        return Roster(
            members=members,
            edge_of=edge_of,
            starts=starts & filled,
            touched=touched & ~dropped,
            idle=~filled,
            dropped=dropped,
            num_lost=int(gone.sum()),
            memory={**state.clock, **walked, **seen, SERVES: serves},
            under=np.where(available, edge_of_ue, NOBODY),
            num_below=0 if self.needs is None else int((few | ~filled).sum()),
        )

    def _enough(self, serves: IntArray) -> BoolArray:
        """The edges that have as many UEs as they need."""
        counts = np.bincount(serves[serves >= 0], minlength=self.fleet.num_edges)
        return np.asarray(counts >= (1 if self.needs is None else self.needs))

    def _serving(self, state: TrainState) -> IntArray:
        serves = state.clock.get(SERVES)
        return np.full(self.fleet.num_ues, -1, dtype=np.int64) if serves is None else serves.copy()

    def _enlist(self, serves: IntArray, candidates: BoolArray, edge_of_ue: IntArray, round_number: int) -> None:
        """Draw the participants of the edge rounds that start, in place."""
        ues = np.flatnonzero(candidates)
        lots = self.streams.at("sampling", round_number).uniform(self.fleet.num_ues)[ues]
        chosen = ues[sampled(self.sampling, edge_of_ue[ues], lots, num_edges=self.fleet.num_edges)]
        serves[chosen] = edge_of_ue[chosen]

    def _present(self, state: TrainState) -> tuple[BoolArray, ClockMemory]:
        if self.availability is None:
            return np.ones(self.fleet.num_ues, dtype=np.bool_), {}
        if not isinstance(self.availability, TwoState):
            return self.availability((state.round, 0)) > 0, {}
        before = state.clock.get(AVAILABLE)
        if before is None:
            available = np.ones(self.fleet.num_ues, dtype=np.bool_)
        else:
            lots = self.streams.at("availability", state.round).uniform(self.fleet.num_ues)
            available = self.availability.step(before, lots)
        return available, {AVAILABLE: available}

    def _walked(self, state: TrainState) -> tuple[IntArray, ClockMemory]:
        """Each UE's edge; with mobility, after walking since the last plan, and where it has come to."""
        if self.mobility is None:
            return self.fleet.edge_of_ue, {}
        if MOVED in state.clock:
            walk, seconds = _walk_in(state.clock), state.time_s - float(state.clock[MOVED][0])
            walk = self.mobility.move(walk, seconds, self.streams, state.round)
        else:
            walk = self.mobility.start(self.fleet, self.streams)
        edge, distance_m = self.mobility.nearest(walk)
        walked = {_WALK + name: values for name, values in vars(walk).items()}
        return edge, walked | {MOVED: np.array([state.time_s]), DISTANCE: distance_m}


def _walk_in(memory: ClockMemory) -> Walk:
    return Walk(**{name.removeprefix(_WALK): v for name, v in memory.items() if name.startswith(_WALK)})


def walked_places(mobility: RandomWaypoint, fleet: Fleet, memory: ClockMemory) -> Places:
    """Where everything is: as far as the UEs had walked when the memory was made."""
    return mobility.places(_walk_in(memory), fleet, memory[DISTANCE])


def sorted_by_edge(serves: IntArray) -> tuple[IntArray, IntArray]:
    """The UEs that serve an edge round, in order of the edges and of their own numbers, and those edges."""
    members = np.flatnonzero(serves >= 0)
    members = members[np.argsort(serves[members], kind="stable")]
    return members, serves[members]


def _edges(of_ues: IntArray, num_edges: int) -> BoolArray:
    found = np.zeros(num_edges, dtype=np.bool_)
    found[of_ues] = True
    return found
