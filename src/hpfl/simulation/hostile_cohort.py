"""A cohort some of whose UEs are hostile: what arrives of them is what their attack has crafted."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import CohortUpdates, Computes, Draws, Evaluation, Kept, TestData
from hpfl.learning.coding import BY_UE, UNCODED, Coding, Travelling
from hpfl.rng import Streams
from hpfl.simulation.hostility import Hostility
from hpfl.training.edge_round import base_round_of, squared_norms


@dataclass(frozen=True, kw_only=True)
class HostileCohort:
    """Stands where the cohort of honest UEs stood; `poisoned` is the same UEs with the samples that hostile ones use.

    Attacks come behind the steps of the uplink that are no codecs, which a hostile UE need not take, and before codecs,
    for what is sent has to look like a message.
    """

    honest: Computes
    hostility: Hostility
    travelling: Travelling
    poisoned: Computes | None = None

    @property
    def num_ues(self) -> int:
        """Number N of UEs."""
        return self.honest.num_ues

    @property
    def device(self) -> torch.device:
        """Where updates lie."""
        return self.honest.device

    def evaluate(
        self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1, kept: Kept | None = None
    ) -> Evaluation:
        """As if all were honest."""
        return self.honest.evaluate(params, test, inner_lr=inner_lr, inner_steps=inner_steps, kept=kept)

    def updates(
        self,
        params: Tensor,
        *,
        ues: IntArray,
        groups: IntArray,
        num_groups: int,
        streams: Streams,
        key: int,
        weights: FloatArray | None = None,
        kept: Kept | None = None,
        keep_per_ue: bool = False,
        coding: Coding = UNCODED,
    ) -> CohortUpdates:
        """As a cohort does; where a hostile UE takes part, all updates are kept at once."""
        asked: dict[str, Any] = {"num_groups": num_groups, "streams": streams, "key": key}
        if not self.hostility.of_ues[ues].any() or not self.hostility.active(base_round_of(key)):
            more: dict[str, Any] = {"weights": weights, "kept": kept, "keep_per_ue": keep_per_ue, "coding": coding}
            return self.honest.updates(params, ues=ues, groups=groups, **asked, **more)
        before = kept or Kept()
        plain = Kept(before.method, before.uplink)
        found = self.honest.updates(
            params, ues=ues, groups=groups, weights=weights, kept=plain, keep_per_ue=True, **asked
        )
        assert found.per_ue is not None
        self._poison(params, found.per_ue, found.kept, ues, groups, kept=plain, asked=asked)
        _craft(self.hostility, found.per_ue, self.hostility.ues[ues], groups)
        draws = Draws(streams, key, ues, self.device, BY_UE)
        sent, codec, noise = self._coded(found, before.codec, draws, groups, coding)
        means = _means(sent, groups, num_groups, found.shares)
        now = Kept(found.kept.method, found.kept.uplink, codec)
        told = replace(found, update=means, importance=squared_norms(means), kept=now, noise=noise)
        return replace(told, per_ue=sent) if keep_per_ue else replace(told, per_ue=None, shares=None)

    def _poison(
        self,
        params: Tensor,
        rows: Tensor,
        now: Kept,
        ues: IntArray,
        groups: IntArray,
        *,
        kept: Kept,
        asked: dict[str, Any],
    ) -> None:
        """Put the updates of UEs that train on poisoned samples in place of their own."""
        if self.poisoned is None:
            return
        at = np.flatnonzero(self.hostility.affected[ues])
        found = self.poisoned.updates(
            params, ues=ues[at], groups=groups[at], kept=kept.rows(at), keep_per_ue=True, **asked
        )
        assert found.per_ue is not None
        rows[torch.from_numpy(at).to(rows.device)] = found.per_ue
        now.write(at, found.kept)

    def _coded(
        self, found: CohortUpdates, errors: Tensor | None, draws: Draws, groups: IntArray, coding: Coding
    ) -> tuple[Tensor, Tensor | None, FloatArray | None]:
        """What arrives of all, what they keep for it, and what each chain that is foretold would add to the means."""
        rows, noise = found.per_ue, None
        assert rows is not None
        assert found.shares is not None
        if coding.foretold:
            each = self.travelling.variance(coding.foretold, rows, errors, draws).cpu().numpy()
            noise = np.zeros((len(found.update), each.shape[1]))
            np.add.at(noise, groups, np.square(found.shares)[:, None] * each)
        if coding.chain.is_identity:
            return rows, errors, noise
        return *self.travelling.coded(coding.chain, rows, errors, draws), noise


def _craft(hostility: Hostility, rows: Tensor, hostile: BoolArray, groups: IntArray) -> None:
    """Put what hostile UEs send in their rows, group by group."""
    for group in np.unique(groups[hostile]).tolist():
        here = groups == group
        mine, others = (torch.from_numpy(np.flatnonzero(here & who)).to(rows.device) for who in (hostile, ~hostile))
        rows[mine] = hostility.crafted(rows[mine], rows[others])


def _means(rows: Tensor, groups: IntArray, num_groups: int, shares: FloatArray | None) -> Tensor:
    """Sums by share in each group, [groups, P], in float64 and rounded once."""
    assert shares is not None
    means = rows.new_zeros(num_groups, rows.shape[1])
    for group in np.unique(groups).tolist():
        at = np.flatnonzero(groups == group)
        own = rows[torch.from_numpy(at).to(rows.device)].to(torch.float64)
        means[group] = (torch.from_numpy(shares[at]).to(own) @ own).to(rows.dtype)
    return means
