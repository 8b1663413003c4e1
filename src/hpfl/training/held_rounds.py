"""Who holds the model of which round, where a broadcast takes time and may be missed: the books of the downlink."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.downlink import lacking_bits, least_in_cells, remembered_steps
from hpfl.training.clock import ClockMemory
from hpfl.training.state import TrainState

_UE, _EDGE, _WHOLE, _STEPS = "down/ue_round", "down/edge_round", "down/whole_round", "down/steps_bits"


@dataclass(frozen=True, kw_only=True)
class HeldRounds:
    """The rounds whose models UEs [N] and edges [K] hold, and the bits of the steps to the newest one, newest last.

    An edge can hand on the steps since `whole_round`, when it last received a model whole. At first everybody holds the
    model of round 0, which all make from the same seed.
    """

    ue_round: IntArray
    edge_round: IntArray
    whole_round: IntArray
    steps_bits: FloatArray

    @staticmethod
    def of(memory: ClockMemory, *, num_ues: int, num_edges: int) -> "HeldRounds":
        """The books in a memory, or those of a run that begins."""
        if _UE in memory:
            return HeldRounds(
                ue_round=memory[_UE],
                edge_round=memory[_EDGE],
                whole_round=memory[_WHOLE],
                steps_bits=memory[_STEPS],
            )
        edges = np.zeros(num_edges, dtype=np.int64)
        ues = np.zeros(num_ues, dtype=np.int64)
        return HeldRounds(ue_round=ues, edge_round=edges, whole_round=edges, steps_bits=np.zeros(0))

    def written(self) -> ClockMemory:
        """The books as parts of a memory."""
        return {_UE: self.ue_round, _EDGE: self.edge_round, _WHOLE: self.whole_round, _STEPS: self.steps_bits}

    def lacking(self, under: IntArray, this_round: int, model_bits: float) -> tuple[FloatArray, FloatArray]:
        """Bits that each edge lacks of this round's model, and those that the most backward UE under it does.

        An edge has nothing but the whole model for a UE that is further behind than the steps it knows.
        """
        edge_bits = lacking_bits(self.edge_round, this_round, self.steps_bits, model_bits)
        oldest = least_in_cells(self.ue_round.astype(np.float64), under, self.edge_round.size)
        held = np.where(np.isfinite(oldest), oldest, this_round).astype(np.int64)
        cell_bits = lacking_bits(held, this_round, self.steps_bits, model_bits)
        return edge_bits, np.where(held < self.whole_round, model_bits, cell_bits)

    def said(self, ues: Mapping[int, int], edges: Mapping[int, int]) -> "HeldRounds":
        """The books with the rounds that UEs and edges themselves say; what is news of an edge, it was sent whole."""
        ue_round, edge_round = self.ue_round.copy(), self.edge_round.copy()
        for own, said in ((ue_round, ues), (edge_round, edges)):
            own[list(said)] = list(said.values())
        whole_round = np.where(edge_round == self.edge_round, self.whole_round, edge_round)
        return replace(self, ue_round=ue_round, edge_round=edge_round, whole_round=whole_round)

    def after(
        self,
        new_round: int,
        *,
        ues: BoolArray,
        edges: BoolArray,
        whole: BoolArray,
        step_bits: float,
        model_bits: float,
    ) -> "HeldRounds":
        """The books once these UEs and edges hold the model of a new round, some of which received it whole."""
        return HeldRounds(
            ue_round=np.where(ues, new_round, self.ue_round),
            edge_round=np.where(edges, new_round, self.edge_round),
            whole_round=np.where(edges & whole, new_round, self.whole_round),
            steps_bits=remembered_steps(self.steps_bits, step_bits, model_bits),
        )


def holds_newest(state: TrainState, edge_of_ue: IntArray) -> BoolArray:
    """Which UEs [N] hold the newest model under an edge that does: the others cannot take part in a round on it."""
    if _UE not in state.clock:
        return np.ones(edge_of_ue.size, dtype=np.bool_)
    return np.asarray((state.clock[_UE] == state.round) & (state.clock[_EDGE][edge_of_ue] == state.round))
