"""What UEs keep between rounds, as workers hold it: a copy at the driver, which is what a round is committed to.

A worker that has the rows it is asked with is not sent them. One that was started again has none, says so, and gets
them from here: so a lost worker costs nothing but its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from hpfl.arrays import IntArray
from hpfl.clusters.block_worker import HELD, ROWS, Array, Given, tensor
from hpfl.learning import Kept

MOST_BYTES = 1 << 30
"""Rows of all UEs that take more are not held twice: they are sent with every call."""


@dataclass
class PrivateRows:
    """The rows of all UEs as their workers had them last, and what each worker called that."""

    num_ues: int
    rows: dict[str, torch.Tensor] = field(default_factory=dict)  # [N, ...]
    known: dict[str, torch.Tensor] = field(default_factory=dict)  # bool[N]
    after: dict[int, str] = field(default_factory=dict)

    def given(self, worker: int, ues: IntArray, kept: Kept, *, again: bool = False) -> Given:
        """Rows [n, ...] of UEs as a worker is told them: by a word, where it has them and was not told so in vain."""
        own = {name: rows for name in ROWS if (rows := getattr(kept, name)) is not None}
        after = "" if again else self.after.get(worker, "")
        told = {
            name: HELD if after and self._has(name, ues, rows) else rows.cpu().numpy() for name, rows in own.items()
        }
        return Given(told, after)

    def committed(self, worker: int, ues: IntArray, rows: Mapping[str, Array | str], now: str) -> None:
        """Take what the worker has now."""
        at = torch.from_numpy(ues)
        for name, own in rows.items():
            if isinstance(own, str):
                continue
            new = tensor(own)
            if self.num_ues * new[0].nbytes > MOST_BYTES:
                continue
            if name not in self.rows:
                self.rows[name] = new.new_zeros(self.num_ues, *new.shape[1:])
                self.known[name] = torch.zeros(self.num_ues, dtype=torch.bool)
            self.rows[name][at] = new
            self.known[name][at] = True
        self.after[worker] = now

    def _has(self, name: str, ues: IntArray, rows: torch.Tensor) -> bool:
        if name not in self.rows:
            return False
        at = torch.from_numpy(ues)
        return bool(self.known[name][at].all()) and torch.equal(self.rows[name][at], rows.to(self.rows[name]))
