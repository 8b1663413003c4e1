"""A random network like the paper's (section 7.1), for tests of planners."""

from dataclasses import replace

import numpy as np

from hpfl.planning.problem import RoundProblem
from hpfl.rng import Streams


def paper_network(seed=0, *, K=20, ues=10, **changes):
    """K edges with `ues` UEs each, distances, fading and sizes as in the paper; `changes` replace fields."""
    streams, N = Streams(seed), K * ues
    ue_distance_m = 2.0 + 48.0 * streams.at("ue distance").uniform(N)
    edge_distance_m = 50.0 + 150.0 * streams.at("edge distance").uniform(K)
    problem = RoundProblem(
        bandwidth_hz=5e6,
        rho=0.8,
        phi=9.33,
        max_edges=max(1, 3 * K // 4),
        staleness_bound=20,
        edge_gain=1e-4 * edge_distance_m**-2 * streams.at("edge fading").exponential(K),
        edge_power_w=np.full(K, 0.01),
        edge_noise_w_per_hz=np.full(K, 3.98e-21),
        edge_bits=np.full(K, 2_544_320.0),
        importance=streams.at("importance").exponential(K),
        staleness=streams.at("staleness").integers(20, K),
        edge_of_ue=np.repeat(np.arange(K), ues),
        ue_gain=10**-3.6 * ue_distance_m**-2 * streams.at("ue fading").exponential(N),
        ue_power_w=np.full(N, 0.01),
        ue_noise_w_per_hz=np.full(N, 3.98e-21),
        ue_bits=np.full(N, 2_544_320.0),
        compute_s=0.003 + 0.02 * streams.at("compute").uniform(N),
    )
    return replace(problem, **changes)
