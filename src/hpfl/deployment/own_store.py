"""What one UE keeps between rounds, on its own disk: rows of its method and its uplink after each computation.

A UE that is killed computes again from what it had kept before; one whose cloud goes back to an earlier round goes
back with it, as far as its files reach.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import torch

from hpfl.deployment.kept_files import KeptFiles, place_of
from hpfl.deployment.logs import log
from hpfl.deployment.wire import Tag
from hpfl.learning import Kept

_NAMES = ("method", "uplink")
FIRST = (0, 0)
"""The place of a run's first model, of which a UE keeps nothing from before."""


class OwnStore:
    """The rows [S] and [U] of one UE after each of its last computations; of the newest run alone."""

    def __init__(self, folder: Path, sizes: tuple[int, int]) -> None:
        self._files = KeptFiles(folder, dict(zip(_NAMES, sizes, strict=True)))

    def before(self, tag: Tag) -> Kept | None:
        """What the UE kept before it computed on the model of a tag; None where it had not begun."""
        places = self._files.places(tag)
        for place in sorted((place for place in places if place < place_of(tag)), reverse=True):
            rows = self._files.at(tag, place)
            if rows is not None:
                return _kept(rows)
        if places or tag.base_round > 0:
            said = "from before this model" if places else "of this run: what was kept is lost, or nothing ever was"
            log("begins anew", level=logging.WARNING, reason=f"nothing is kept {said}", round=tag.round)
        return None

    def newest(self) -> Kept | None:
        """What the UE keeps now; None where it has not begun."""
        rows = self._files.newest()
        return None if rows is None else _kept(rows)

    def put(self, tag: Tag, kept: Kept) -> None:
        """Keep what the UE has after it computed on the model of a tag; what was kept of later models is gone."""
        self._files.put(tag, {name: row for name in _NAMES if (row := getattr(kept, name)) is not None})


def _kept(rows: Mapping[str, torch.Tensor]) -> Kept:
    return Kept(rows.get("method"), rows.get("uplink"))
