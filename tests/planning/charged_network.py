"""The paper's network with a way down that costs as much as the way up, and a menu of codings."""

from dataclasses import replace

import numpy as np
from paper_network import paper_network

from hpfl.planning.broadcast import Downlink
from hpfl.planning.codings import Codings

MODEL = 79_510 * 32.0
SHARES = (1.0, 0.25, 0.125, 0.05)
"""Of the model's bits, by entry of the menu: all, 8, 4 and 1.6 bits a number."""
USUAL = (0.0, 1e-3, 0.3, 20.0)
"""What each adds to an update, over its squared norm."""


def charged_network(seed=0, *, K=12, ues=3, spectrum="phased", **changes):
    """A round in which every edge holds the current model, unless `changes` say otherwise."""
    problem = paper_network(seed, K=K, ues=ues, staleness=np.zeros(K, dtype=np.int64), spectrum=spectrum)
    cell_snr_hz = np.full(K, np.inf)
    np.minimum.at(cell_snr_hz, problem.edge_of_ue, problem.ue_snr_hz)
    bits = tuple(MODEL * share for share in SHARES)
    down = Downlink(
        edge_snr_hz=problem.edge_snr_hz,
        cell_snr_hz=cell_snr_hz,
        edge_bits=np.zeros(K),
        cell_bits=np.zeros(K),
        cell_ues=np.full(K, ues),
        model_bits=MODEL,
        step_bits=bits,
        message_bits=bits,
    )
    menu = Codings(ue_bits=bits, edge_bits=bits, noise=np.outer(np.ones(K), USUAL), usual=USUAL)
    return replace(problem, **{"downlink": down, "codings": menu, "max_edges": K, **changes})
