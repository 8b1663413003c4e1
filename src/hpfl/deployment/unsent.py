"""What a coder, UE or edge, has not got across yet, on its own disk; the cloud says after which of its updates.

What is left unsent of an update is written down before the update is sent, and becomes what the coder goes on from
only once an order says that this update has counted. So an update that was lost on the way changes nothing, a coder
that is killed codes the same bytes again, and one whose cloud goes back to an earlier round goes back with it.
"""

import logging
from pathlib import Path

import torch

from hpfl.deployment.kept_files import KeptFiles
from hpfl.deployment.logs import log
from hpfl.deployment.wire import Tag

_ROW = "unsent"


class Unsent:
    """The row [size] that a coder keeps after each of its last updates; nothing is written where that is 0."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self._files = KeptFiles(folder, {_ROW: size})

    def before(self, tag: Tag, counted: int, dtype: torch.dtype) -> torch.Tensor:
        """What an update on the model of a tag is coded with.

        That is what was left of the edge round before it or, in the first, of the update on the model of round
        `counted - 1`, which is the last that has counted; 0: none has.
        """
        nothing = torch.zeros(self.size, dtype=dtype)
        if not self.size or (not counted and not tag.edge_round):
            return nothing
        base_round = tag.base_round if tag.edge_round else counted - 1
        known = [place for place in self._files.places(tag) if place[0] == base_round]
        wanted = (base_round, tag.edge_round - 1) if tag.edge_round else max(known, default=(base_round, 0))
        rows = self._files.at(tag, wanted)
        if rows is None:
            log("begins anew", level=logging.WARNING, reason="what was left unsent is not here", round=base_round)
            return nothing
        return rows[_ROW].to(dtype)

    def newest(self, tag: Tag, dtype: torch.dtype) -> torch.Tensor:
        """What was left last before the model of a tag, counted or not."""
        nothing = torch.zeros(self.size, dtype=dtype)
        earlier = [place for place in self._files.places(tag) if place[0] < tag.base_round] if self.size else []
        rows = self._files.at(tag, earlier[-1]) if earlier else None
        return nothing if rows is None else rows[_ROW].to(dtype)

    def put(self, tag: Tag, row: torch.Tensor) -> None:
        """Keep what is left once the update on the model of a tag will have counted."""
        if self.size:
            self._files.put(tag, {_ROW: row})
