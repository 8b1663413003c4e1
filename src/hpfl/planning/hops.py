"""The hops of a round as problems of their own: one where Hz are fixed, two where phases share the band in turn.

Under spectrum `phased` with one switch a set takes as long as its UEs' uploads and its backhauls together, and neither
knows of the other. What is tabulated of edges that share a band is therefore tabulated hop by hop, and added up.
"""

from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.lines import Lines
from hpfl.planning.problem import Allocation, RoundProblem


def hops_of(problem: RoundProblem) -> tuple[RoundProblem, ...]:
    """The problem itself, or its access links and its backhauls, each without the other."""
    if problem.spectrum == "fixed":
        return (problem,)
    links = problem.links
    access, backhaul = (
        replace(links, edge_bits=np.zeros(links.num_edges)),
        replace(links, ue_bits=np.zeros(links.num_ues)),
    )
    return tuple(replace(problem, links=hop, spectrum="fixed", trusted=True) for hop in (access, backhaul))


def hop_seconds(problem: RoundProblem, allocation: Allocation) -> tuple[float, ...]:
    """How long each of the hops takes in an allocation with constant Hz, or with one switch."""
    if problem.spectrum == "fixed":
        return (allocation.round_latency_s,)
    access_s = float(np.max(allocation.edge_phase_s[allocation.scheduled], initial=0.0))
    return access_s, float(np.max(allocation.edge_upload_s[allocation.scheduled], initial=0.0))


@dataclass(frozen=True)
class HopLines:
    """Certified lines below every edge's need in each hop (see `Lines`), and the band that they share."""

    hops: tuple[Lines, ...]
    bandwidth_hz: float

    def least_latency_s(self, sets: BoolArray) -> FloatArray:
        """For each row of `sets` a time before which it cannot finish, close to exact near points of the tables."""
        return np.asarray(sum(lines.least_latency_s(sets, self.bandwidth_hz) for lines in self.hops))
