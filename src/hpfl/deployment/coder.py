"""How a UE or an edge codes its update as it sends it: its own draws, and its own error on its own disk."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hpfl.arrays import FloatArray
from hpfl.deployment.checks import check_update
from hpfl.deployment.node import SharedWork
from hpfl.deployment.unsent import Unsent
from hpfl.deployment.wire import Tag, Vector
from hpfl.learning import Draws
from hpfl.rng import Streams


@dataclass(frozen=True)
class Coder:
    """Codes the updates of one sender, whose `number` and `purpose` its draws are addressed by."""

    work: SharedWork
    purpose: str
    number: int
    unsent: Unsent

    @staticmethod
    def of(work: SharedWork, purpose: str, number: int, folder: str) -> "Coder":
        """The coder of a node that keeps its files in a folder, which it may share with others."""
        own = Path(folder) / f"{purpose.replace('/', '-')}-{number}"
        return Coder(work, purpose, number, Unsent(own, work.sending.numbers_of_codec))

    def coded(self, update: Vector, tag: Tag, *, key: int, coding: int, counted: int) -> Vector:
        """The message with an update [P] on the model of a tag; what is left unsent is written down before it is sent.

        Refused where no parent would take what arrives of it.
        """
        row = self.unsent.before(tag, counted, self.work.updates.dtype)
        message, left = self.work.updates.coded(update, row, self._draws(key), coding)
        check_update(self.work.updates.decoded(message, coding), self.work.bounds)
        self.unsent.put(tag, left)
        return message

    def foretold(self, update: Vector, tag: Tag, *, key: int) -> FloatArray:
        """What each coding of the menu would add to an update [P], [C], where the planner asks."""
        if not self.work.foretold:
            return np.zeros(0)
        row = self.unsent.newest(tag, self.work.updates.dtype).unsqueeze(0)
        rows, travelling = torch.from_numpy(update).unsqueeze(0), self.work.sending.travelling
        return np.asarray(travelling.variance(self.work.foretold, rows, row, self._draws(key))[0].numpy())

    def _draws(self, key: int) -> Draws:
        streams = Streams(self.work.config.training.seed)
        return Draws(streams, key, np.array([self.number]), torch.device("cpu"), self.purpose)
