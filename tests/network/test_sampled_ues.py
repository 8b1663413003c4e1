"""Who takes part: in each edge those with the least lots, however they are found."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpfl.network.sampling import Sampling, sampled


def by_order(sampling: Sampling, edge_of: np.ndarray, lots: np.ndarray, num_edges: int) -> np.ndarray:
    """Edge by edge, from the least lot on; of equal ones the first."""
    chosen = np.zeros(len(lots), dtype=bool)
    for edge in range(num_edges):
        own = np.flatnonzero(edge_of == edge)
        count = int(sampling.wanted(np.array([len(own)]))[0])
        chosen[own[np.argsort(edge + lots[own], kind="stable")][:count]] = True
    return chosen


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 9), st.booleans(), st.sampled_from([3, 10**9]))
def test_those_with_the_least_lots_of_each_edge_take_part(
    seed: int, edges: int, each: int, alike: bool, kinds: int
) -> None:
    """Edges of equally many candidates in order, and others; lots that are often alike, and that never are."""
    draws = np.random.default_rng(seed)
    edge_of = np.repeat(np.arange(edges), each)
    if not alike:
        edge_of = draws.permutation(edge_of)[: draws.integers(0, len(edge_of) + 1)]
    lots = draws.integers(0, kinds, len(edge_of)) / kinds
    for sampling in (Sampling(fraction=0.3), Sampling(count=2), Sampling()):
        found = sampled(sampling, edge_of, lots, num_edges=edges)
        np.testing.assert_array_equal(found, by_order(sampling, edge_of, lots, edges))
