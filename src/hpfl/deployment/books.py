"""What a cloud's books say of its edges and UEs between rounds: which models they hold, which updates have counted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, IntArray
from hpfl.deployment.deliveries import Delivered, Held
from hpfl.deployment.wire import DIGEST_BYTES
from hpfl.training.clock import ClockMemory
from hpfl.training.state import TrainState

_DIGEST, _EDGE_COUNTED, _UE_COUNTED = "digest", "counted/edge", "counted/ue"


@dataclass(frozen=True, kw_only=True)
class Books:
    """By edge [K], the digest of the model it holds; by edge and by UE [N], what has counted.

    That is the base round of its newest update that was aggregated, plus 1; 0: none was. A coder goes on from what it
    left unsent of that update.
    """

    digest: NDArray[np.uint8]
    edge_counted: IntArray
    ue_counted: IntArray

    @staticmethod
    def of(state: TrainState) -> "Books":
        """The books in a state; those of a run that begins are empty."""
        edges, ues, clock = len(state.base_round), len(state.joules), state.clock
        return Books(
            digest=_known(clock, _DIGEST, np.zeros((edges, DIGEST_BYTES), np.uint8)),
            edge_counted=_known(clock, _EDGE_COUNTED, np.zeros(edges, np.int64)),
            ue_counted=_known(clock, _UE_COUNTED, np.zeros(ues, np.int64)),
        )

    def memory(self) -> ClockMemory:
        """The books as a state holds them."""
        return {_DIGEST: self.digest, _EDGE_COUNTED: self.edge_counted, _UE_COUNTED: self.ue_counted}

    def holding(self, held: Mapping[int, Held]) -> "Books":
        """With the models that edges say they hold."""
        digest = self.digest.copy()
        for edge, one in held.items():
            digest[edge] = np.frombuffer(one.tag.base, dtype=np.uint8)
        return replace(self, digest=digest)

    def told(self, edges: BoolArray, base: bytes) -> "Books":
        """With edges that have been sent a model."""
        digest = self.digest.copy()
        digest[edges] = np.frombuffer(base, dtype=np.uint8)
        return replace(self, digest=digest)

    def taking(self, came: Mapping[int, Delivered]) -> "Books":
        """With updates that have counted."""
        edge_counted, ue_counted = self.edge_counted.copy(), self.ue_counted.copy()
        for edge, one in came.items():
            edge_counted[edge] = ue_counted[one.ues] = one.base_round + 1
        return replace(self, edge_counted=edge_counted, ue_counted=ue_counted)


def _known(clock: ClockMemory, name: str, empty: NDArray[Any]) -> NDArray[Any]:
    known = clock.get(name)
    return empty if known is None else known
