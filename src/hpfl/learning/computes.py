"""What training asks of those who compute: the mean updates of groups of UEs, and figures of every UE.

One cohort on one device stands behind it, one whose rounds a GPU has recorded, or cohorts on several machines: since
sums are formed over canonical blocks of UEs (`blocks.py`), who computes which block changes no bit.
"""

from typing import Protocol

import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.kept import Kept
from hpfl.rng import Streams


class Computes(Protocol):
    """The UEs of a run with their data; everything else comes in with each call."""

    @property
    def num_ues(self) -> int:
        """Number N of UEs."""

    @property
    def device(self) -> torch.device:
        """Where updates lie."""

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
        """Mean update per group from `params` [P], or from one row per group [groups, P].

        `kept` has a row for each of `ues`, as have the rows that come back; None: all of them begin. All draws are
        addressed by (seed, key, UE): the same whoever else takes part. `keep_per_ue` asks for what arrives of each UE,
        `coding` for updates as they arrive over a chain of codecs, and for the noise that chains would add.
        """

    def evaluate(
        self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1, kept: Kept | None = None
    ) -> Evaluation:
        """Figures of every UE at `params` [P] and at its personal model; `kept` has a row for each UE, [N, ...]."""
