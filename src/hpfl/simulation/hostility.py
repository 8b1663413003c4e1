"""Who is hostile in a simulated run, what they train on, and what they send in place of their updates."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import BoolArray, IntArray
from hpfl.attacks.attack import ATTACKS, Attack, Labelled
from hpfl.attacks.choosing import hostile_edges, hostile_ues
from hpfl.config import ConfigError, Experiment
from hpfl.data.shards import Shards, running_total
from hpfl.learning import LearningError, TestData
from hpfl.rng import Streams

_EDGES, _UES = "hostile.edges", "hostile.ues"


@dataclass(frozen=True, kw_only=True)
class Hostility:
    """The attack, the `edges` [K] and `ues` [N] that send what it crafts, and those UEs that train as it says.

    `affected` [N] are the UEs that are hostile or sit under a hostile edge.
    """

    attack: Attack
    edges: BoolArray
    ues: BoolArray
    affected: BoolArray
    from_round: int = 0
    poisons: bool = False

    @property
    def of_ues(self) -> BoolArray:
        """The UEs that do anything else than honest ones, [N]."""
        return self.affected if self.poisons else self.ues

    def active(self, base_round: int) -> bool:
        """Whether the model of a round is attacked."""
        return base_round >= self.from_round

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """What the attack makes of it, if it can be sent."""
        made = self.attack.crafted(own, honest)
        if made.shape != own.shape or made.dtype != own.dtype or not bool(torch.isfinite(made).all()):
            who, wanted = type(self.attack).__name__, f"{own.dtype} of shape {tuple(own.shape)}"
            raise LearningError(f"the attack {who} crafts what cannot be sent; wanted finite numbers, {wanted}")
        return made

    def crafted_edges(self, pending: Tensor, edges: IntArray, base_round: int) -> Tensor:
        """Pending updates [K, P] with those of hostile edges among `edges`, which have just computed, as they send."""
        mine = edges[self.edges[edges]]
        if not mine.size or not self.active(base_round):
            return pending
        computed = torch.linalg.vector_norm(pending, dim=1).cpu().numpy() > 0
        rows = torch.as_tensor(mine, device=pending.device)
        honest = pending[torch.as_tensor(np.flatnonzero(computed & ~self.edges), device=pending.device)]
        return pending.index_copy(0, rows, self.crafted(pending[rows], honest))


def hostility_of(config: Experiment) -> Hostility | None:
    """The hostile members of an experiment; None: nobody is."""
    hostile, counts = config.hostile, config.network.ues_of_edges
    if not hostile.on:
        return None
    streams = Streams(config.training.seed)
    edges = hostile_edges(hostile.edges, len(counts), streams)
    ues = hostile_ues(hostile.ues, counts, streams)
    if not edges.any() and not ues.any():
        raise ConfigError(f'hostile.attack is "{hostile.attack}"; say who with {_EDGES} or {_UES}')
    return Hostility(
        attack=config.made("hostile.attack"),
        edges=edges,
        ues=ues,
        affected=ues | np.repeat(edges, counts),
        from_round=hostile.from_round,
        poisons=bool(ATTACKS.part(hostile.attack).traits["poisons"]),
    )


def only_of(shards: Shards, ues: BoolArray) -> Shards:
    """The shards of some UEs [N], copied one after the other; all others have none, and keep their numbers."""
    source, begins = shards.source_rows(np.flatnonzero(ues))
    return Shards(source, running_total(ues.astype(np.int64)), begins[:-1], np.diff(begins))


def poisoned_samples(config: Experiment, hostility: Hostility, samples: Labelled) -> Labelled:
    """What hostile UEs train on, of samples in the order of their shards; faults are told as those of the key."""
    lots = Streams(config.training.seed).at("hostile/samples").uniform(len(samples.targets))
    with _told_of(config, samples):
        return hostility.attack.poisoned(samples, lots)


def aimed_tests(config: Experiment, hostility: Hostility, samples: Labelled, shards: Shards) -> TestData | None:
    """The test samples that an attack is measured on, as it would have them answered; None: it has no aim."""
    if not ATTACKS.part(config.hostile.attack).traits["columns"]:
        return None
    with _told_of(config, samples):
        found = hostility.attack.tests(samples)
        if found is None:
            raise ValueError("it has columns for its success and no samples to measure that on")
    made, counts = found
    rows, offsets = shards.rows()
    left = counts.numpy()[rows]
    sizes = np.diff(running_total(left)[offsets])
    others = Shards(rows[left], np.arange(len(sizes) + 1), running_total(sizes)[:-1], sizes)
    return TestData(made.inputs[others.order], made.targets[others.order], others)


@contextmanager
def _told_of(config: Experiment, samples: Labelled) -> Iterator[None]:
    """Have faults of an attack told as those of its key; what has no classes is refused."""
    place = f'hostile.attack is "{config.hostile.attack}"'
    if not samples.num_classes:
        raise ConfigError(f"{place}; it needs classes, and data.dataset = {config.data.dataset!r} has none")
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from error
