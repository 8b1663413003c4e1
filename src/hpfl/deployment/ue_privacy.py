"""What a UE does for its privacy before anything of an update leaves it: clips it, and adds its share of the noise."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import IntArray
from hpfl.deployment.secret_draws import SecretDraws, about
from hpfl.deployment.secure_format import CellAgreed, SecureFormat
from hpfl.deployment.wire import Tag, Vector
from hpfl.privacy.discrete_gaussian import discrete_gaussian
from hpfl.training.private_cells import CellPrivacy, share_of_noise


@dataclass(frozen=True)
class Released:
    """An update that may leave, and the levels that it is sent as under masks, where noise is in whole numbers."""

    update: Vector
    levels: IntArray | None = None


@dataclass(frozen=True)
class UePrivacy:
    """The part of UE `number` of cell `cell`, with noise from a `key` of its own."""

    private: CellPrivacy
    secure: SecureFormat | None
    number: int
    cell: int
    key: Callable[[], bytes]

    def released(self, update: Vector, tag: Tag) -> Released:
        """What leaves of an update on the model of a tag: the same, however often it is computed."""
        clip = self.private.clip_norm - (0.0 if self.secure is None else self.secure.update.rounding)
        norm = float(np.linalg.norm(update.astype(np.float64)))
        clipped = update * update.dtype.type(clip / norm) if norm > clip else update
        if self.private.noise_at == "edge":
            return Released(clipped)
        share = share_of_noise(
            self.private.noise_multiplier, self.private.clip_norm, int(self.private.planned[self.cell])
        )
        draws = SecretDraws(self.key(), about("ue", tag, [self.number], clipped))
        if self.secure is not None:
            return self._in_levels(clipped, share, tag, draws, self.secure)
        numbers = update.size if self.private.places is None else len(self.private.places)
        return Released(
            (clipped + self.private.spread(share * draws.standard_normal(numbers), update.size)).astype(update.dtype)
        )

    def _in_levels(self, clipped: Vector, share: float, tag: Tag, draws: SecretDraws, secure: SecureFormat) -> Released:
        """Noise in whole numbers on whole numbers, so that sums of it are what they are held to be."""
        cell = secure.update
        levels = secure.update_words(clipped, 1, tag, CellAgreed(self.cell), self.number).astype(np.int64)
        if share:
            levels = np.clip(levels + discrete_gaussian(share / cell.step, levels.size, draws), 0, cell.count - 1)
        values = np.asarray((levels - (cell.count - 1) / 2) * cell.step, dtype=np.float64)
        return Released(self.private.spread(values, clipped.size).astype(clipped.dtype), levels)
