"""Sizes of an edge round's work: bits of an upload on each hop, by every coding of the menu, and what UEs compute."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.network.latency import compute_s
from hpfl.network.radio import Recorded, Recorder
from hpfl.network.topology import Fleet
from hpfl.planning.codings import Codings
from hpfl.training.clock import Work


@dataclass(frozen=True, kw_only=True)
class WorkSizes:
    """Sizes of the work: bits of an update on each hop, and samples a UE's edge round touches.

    `codings` are the bits of both hops by entry of the menu; none: uploads are not coded. `usual` is what each adds to
    normal numbers, over their squared norm, and `delays` the rounds by which it delays (`planning/codings.py`).
    """

    ue_bits: float
    edge_bits: float
    touched_samples: FloatArray
    sample_bits: float
    compute_s: Recorded | None = None
    record: Recorder | None = None
    codings: tuple[tuple[float, float], ...] = ()
    usual: tuple[float, ...] = ()
    delays: tuple[float, ...] = ()

    def of_coding(self, entry: int) -> tuple[float, float]:
        """Bits of a UE's and an edge's upload by an entry of the menu."""
        return self.codings[entry] if self.codings else (self.ue_bits, self.edge_bits)

    def menu(self, noise: FloatArray) -> Codings:
        """What a planner may choose from, with the noise [K, C] that each entry adds."""
        ue_bits, edge_bits = zip(*self.codings, strict=True)
        return Codings(ue_bits=ue_bits, edge_bits=edge_bits, noise=noise, usual=self.usual, delays=self.delays)

    def whole(self, fleet: Fleet, round_number: int) -> Work:
        """The work of all UEs and edges that start anew in a round."""
        if self.compute_s is not None:
            seconds = self.compute_s((round_number, 0))
        else:
            seconds = compute_s(
                self.touched_samples,
                cycles_per_bit=fleet.cycles_per_bit,
                sample_bits=self.sample_bits,
                cpu_hz=fleet.cpu_hz,
            )
        if self.record is not None:
            self.record("compute_s", (round_number, 0), seconds)
        return Work(
            compute_s=seconds,
            ue_bits=np.full(fleet.num_ues, self.ue_bits),
            edge_bits=np.full(fleet.num_edges, self.edge_bits),
        )
