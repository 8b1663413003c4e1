"""Keys of secure aggregation: what an edge may learn of its UEs. Nothing is masked, unless it is written here."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from hpfl.config.fields import key
from hpfl.config.named import rows_of
from hpfl.config.old_keys import RenewedSection
from hpfl.config.uplinks import AUTO, num_codecs
from hpfl.learning import METHODS
from hpfl.network.sampling import Sampling
from hpfl.quorums import LARGEST_CELL, quorum_of

if TYPE_CHECKING:
    from hpfl.config.whole import Config

_SUMS = (("rounding",), ("ternary",), ("random-k",), ("random-k", "rounding"), ("random-k", "ternary"), ())
"""Codecs, in a row, of which a sum can be read without the parts: levels of agreed scales, places of a common seed."""


class SecureConfig(RenewedSection):
    """Sums under masks: in a cell, or not at all."""

    section = "secure"

    aggregation: Literal["none", "cell"] = key(
        "none", "cell: an edge learns the sum of its UEs' updates and nothing else of them", since=6
    )
    bits: int = key(
        24, "bits of a number of an update that no codec makes smaller, before it is summed", ge=2, le=32, since=6
    )
    range: float = key(
        16.0, "largest magnitude of a number of an update; a UE with a larger one scales its update down", gt=0, since=6
    )
    first_scale: float = key(
        0.1, "largest magnitude that codecs of a cell begin with; it is agreed anew after each sum", gt=0, since=6
    )
    leavers: Literal["tolerated", "refused"] = key(
        "tolerated",
        "UEs that leave between the sums of sketches and of updates: the edge may learn the sum of their sketches, or "
        "there is no sum of updates",
        since=6,
    )

    @property
    def on(self) -> bool:
        """Whether edges learn sums alone."""
        return self.aggregation == "cell"


def check_secure(config: "Config") -> None:
    """Refuse what masks leave nothing of, and cells too small to hide anybody or to come to a sum."""
    if not config.secure.on:
        return
    for wrong, what in _others(config):
        if wrong:
            raise ValueError(f'secure.aggregation is "cell", and {what}')
    _check_codecs(config)
    life, counts = config.life, config.network.ues_of_edges
    if config.secure.first_scale > config.secure.range:
        raise ValueError(
            f"secure.first_scale is {config.secure.first_scale:g}; wanted at most secure.range, {config.secure.range:g}"
        )
    drawn = Sampling(fraction=life.sample_fraction, count=life.sample_count).wanted(counts)
    wanted = quorum_of(counts)
    for edge in np.flatnonzero(drawn < wanted)[:1].tolist():
        key_name = "sample_count" if life.sample_count else "sample_fraction"
        raise ValueError(
            f'secure.aggregation is "cell", and life.{key_name} = {getattr(life, key_name):g} draws {drawn[edge]} of '
            f"the {counts[edge]} UEs of edge {edge}; wanted at least {wanted[edge]}, more than two "
            "thirds, without which a cell opens no sum"
        )


def _others(config: "Config") -> list[tuple[bool, str]]:
    """What else may be wrong, and how it is told."""
    training, life, method = config.training, config.life, config.learning.method
    counts = config.network.ues_of_edges
    fewest, most = int(counts.min()), int(counts.max())
    return [
        (
            training.edge_combine != "mean",
            f'training.edge_combine is "{training.edge_combine}": an edge sees sums only, of which no rule can leave '
            "one UE's update out; wanted the mean",
        ),
        (
            bool(METHODS.traits_of(method)["silent"]),
            f'learning.method is "{method}", which sends nothing: there is nothing to sum',
        ),
        (life.moves, "life.speed_m_per_s lets UEs walk to other cells; wanted the UEs that a cell is configured with"),
        (fewest < 2, "network.ues_per_edge gives an edge 1 UE, whose update would be the sum; wanted at least 2"),
        (
            most > LARGEST_CELL,
            f"network.ues_per_edge gives an edge {most} UEs, who would all agree on masks with each other; wanted at "
            f"most {LARGEST_CELL}",
        ),
    ]


def _check_codecs(config: "Config") -> None:
    """Refuse codecs whose messages cannot be added up."""
    place, uplink = 'secure.aggregation is "cell", and learning.uplink', config.learning.uplink
    if uplink == AUTO:
        return  # no menu, of which every UE would have to say how much each entry adds to its update: ternary
    chosen = rows_of(type(config.learning))["uplink"].chosen(uplink)
    names = tuple(part.name for part, _ in chosen[len(chosen) - num_codecs(chosen) :])
    if "top-k" in names:
        raise ValueError(
            f'{place} has "top-k": every UE chooses places of its own, so that a sum would have to be as long as an '
            'update; wanted "random-k", whose places a cell shares'
        )
    if names not in _SUMS:
        raise ValueError(
            f"{place} has the codecs {', '.join(names)}; sums can be read of random-k, and of rounding or ternary, "
            "alone or behind it"
        )
