"""What combine rules demand of the rest of a configuration: enough updates to join, and weights that they can read."""

from typing import TYPE_CHECKING

import numpy as np

from hpfl.network.sampling import Sampling
from hpfl.planning.planners import PLANNERS
from hpfl.training.combine import COMBINES

if TYPE_CHECKING:
    from hpfl.config.whole import Config

_EDGES, _CLOUD = "edge_combine", "combine"


def check_rules(config: "Config") -> None:
    """Refuse a rule that too few updates can reach, or that counts every update once beside weights by samples."""
    for key, (most, why) in {_EDGES: _at_an_edge(config), _CLOUD: _at_the_cloud(config)}.items():
        name = getattr(config.training, key)
        traits, place = COMBINES.part(name).traits, f'training.{key} is "{name}"'
        options = config.training.options(key)
        least = 1 if traits["needs"] is None else int(traits["needs"](options))
        if most < least:
            told = ", ".join(f"{option} = {value}" for option, value in options) if options else "no options"
            raise ValueError(f"{place} with {told}; that takes {least} updates at least, and {why}")
        if config.training.weighting == "samples" and not traits["weighs"]:
            raise ValueError(f'{place}; it counts every update once, and training.weighting is "samples"')


def _at_an_edge(config: "Config") -> tuple[int, str]:
    """The most updates that the smallest edge can have, and what says so."""
    fewest, life = int(config.network.ues_of_edges.min()), config.life
    drawn = int(Sampling(fraction=life.sample_fraction, count=life.sample_count).wanted(np.array([fewest]))[0])
    if drawn < fewest:
        key = "sample_count" if life.sample_count else "sample_fraction"
        return drawn, f"life.{key} = {getattr(life, key):g} leaves {drawn} of {fewest} UEs"
    return fewest, f"network.ues_per_edge gives an edge {fewest}"


def _at_the_cloud(config: "Config") -> tuple[int, str]:
    """The most updates that a round can have at the cloud, and what says so."""
    edges, cap = config.network.edges, config.planning.max_edges
    reads = PLANNERS.part(config.planning.planner).traits["reads"]
    reads = reads(config.planning.options("planner")) if callable(reads) else reads
    capped = config.training.trigger == "first" or reads is None or "max_edges" in reads
    if capped and cap < edges:
        return cap, f"planning.max_edges is {cap}"
    return edges, f"network.edges is {edges}"
