"""How a UE turns a model into its update: as its method and its uplink say, with what they keep on its own disk."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.deployment.checks import check_update
from hpfl.deployment.coder import Coder
from hpfl.deployment.kept_files import place_of
from hpfl.deployment.learner import Learner
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.own_store import FIRST, OwnStore
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.ue_privacy import Released, UePrivacy
from hpfl.deployment.wire import Tag, Vector
from hpfl.learning import Draws, Kept, NonFiniteUpdateError
from hpfl.rng import Streams
from hpfl.training.edge_round import draw_key


@dataclass(frozen=True)
class OwnUpdate:
    """An update as it is sent uncoded, what arrives of it, its sketch, what codings would add, and what is kept.

    `levels` are those that it is sent as under masks, where they have noise in them. `anew`: the UE keeps something
    between rounds, and had nothing left of earlier models.
    """

    packed: Vector
    arrives: Vector
    sketch: FloatArray
    noise: FloatArray
    kept: Kept | None = None
    levels: IntArray | None = None
    anew: bool = False


@dataclass(frozen=True)
class OwnUpdates:
    """The updates and figures of UE `number`; one that keeps nothing between rounds never touches its store.

    One that `never_trains` has figures alone: where its method keeps something, after local work on the model itself.
    """

    learner: Learner
    work: SharedWork
    number: int
    store: OwnStore
    coder: Coder
    privacy: UePrivacy | None = None
    never_trains: bool = False

    def made(self, tag: Tag, params: Vector) -> OwnUpdate:
        """An update that no parent would refuse, clipped and noised where it is to be, and its sketch."""
        try:
            own = self._plain(tag, params) if self.work.sending.is_plain else self._sent(tag, params)
        except NonFiniteUpdateError as error:
            raise RefusedError("nonfinite", str(error)) from None
        return own if self.privacy is None else self._released(own, self.privacy.released(own.arrives, tag))

    def _released(self, own: OwnUpdate, leaves: Released) -> OwnUpdate:
        check_update(leaves.update, self.work.bounds)
        places = self.work.sending.places
        packed = leaves.update if places is None else leaves.update[places.numpy()]
        sketch = self.learner.sketch(leaves.update)
        return replace(own, packed=packed, arrives=leaves.update, sketch=sketch, levels=leaves.levels)

    def within(self, own: OwnUpdate, fitted: Callable[[Vector], Vector]) -> OwnUpdate:
        """An update as it fits the range of a secure sum; it is told where it does not fit as it is."""
        arrives = fitted(own.arrives)
        if arrives is own.arrives:
            return own
        log("scaled down to secure.range", level=logging.WARNING, largest=float(np.abs(own.arrives).max()))
        return replace(own, packed=arrives, arrives=arrives, sketch=self.learner.sketch(arrives))

    def keep(self, tag: Tag, kept: Kept) -> None:
        """Put on the disk what is kept beside an update, before anybody hears of it."""
        self.store.put(tag, kept)

    def coded(self, tag: Tag, own: OwnUpdate, order: Any) -> Vector:
        """The update on the model of a tag, coded as an order says."""
        key = draw_key(tag.base_round, tag.edge_round)
        return self.coder.coded(own.arrives, tag, key=key, coding=order.coding, counted=order.counted)

    def figures(self, tag: Tag, params: Vector) -> FloatArray:
        """This UE's figures of the model of a tag, in the order of the experiment's columns."""
        if not self._keeps:
            return self.learner.evaluate(params)
        if self.never_trains:
            return self.learner.evaluate(params, self.learner.begun(params, tag.round))
        return self.learner.evaluate(params, (self.store.before(tag) or Kept()).method)

    def _plain(self, tag: Tag, params: Vector) -> OwnUpdate:
        update = self.learner.update(params, base_round=tag.base_round, edge_round=tag.edge_round)
        check_update(update, self.work.bounds)
        noise = self.coder.foretold(update, tag, key=draw_key(tag.base_round, tag.edge_round))
        return OwnUpdate(update, update, self.learner.sketch(update), noise)

    def _sent(self, tag: Tag, params: Vector) -> OwnUpdate:
        key = draw_key(tag.base_round, tag.edge_round)
        found = self.store.before(tag) if self._keeps else None
        before, anew = found or Kept(), self._keeps and found is None and place_of(tag) > FIRST
        update, own = self.learner.local(params, before.method, key=key)
        streams = Streams(self.work.config.training.seed)
        draws = Draws(streams, key, np.array([self.number]), torch.device("cpu"))
        packed = self.work.updates.packed(update, self._uplink_row(before), draws)
        check_update(packed.arrives, self.work.bounds)
        kept = Kept(own, packed.kept) if self._keeps else None
        noise = self.coder.foretold(packed.arrives, tag, key=key)
        sketch = self.learner.sketch(packed.arrives)
        return OwnUpdate(packed.message, packed.arrives, sketch, noise, kept, anew=anew)

    def _uplink_row(self, before: Kept) -> torch.Tensor:
        """What the uplink kept; zeros of a UE that begins."""
        if before.uplink is not None:
            return before.uplink
        return torch.zeros(self.work.sending.numbers_kept[1], dtype=self.learner.dtype)

    @property
    def _keeps(self) -> bool:
        return any(self.work.sending.numbers_kept)
