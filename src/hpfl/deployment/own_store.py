"""What one UE keeps between rounds, on its own disk: a small file for each of the last models it has computed on.

A UE that is killed computes again from what it had kept before; one whose cloud goes back to an earlier round goes
back with it, as far as its files reach.
"""

import hashlib
import logging
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from hpfl import atomic
from hpfl.deployment.logs import log
from hpfl.deployment.wire import Tag
from hpfl.learning import Kept

_FILES = 16  # models that a UE can go back by
_NAMES = ("method", "uplink")
_HEAD_BYTES = 4096  # more than a file's head takes


class OwnStore:
    """The rows [S] and [U] of one UE after each of its last computations; of the newest run alone."""

    def __init__(self, folder: Path, sizes: tuple[int, int]) -> None:
        self._folder = folder
        self._shapes = {name: (size,) for name, size in zip(_NAMES, sizes, strict=True) if size}

    def before(self, tag: Tag) -> Kept | None:
        """What the UE kept before it computed on the model of a tag; None where it had not begun."""
        known = self._known(tag)
        for place in sorted((place for place in known if place < _place(tag)), reverse=True):
            kept = self._read(known[place])
            if kept is not None:
                return kept
        if known:
            log("begins anew", level=logging.WARNING, reason="nothing is kept from before this model", round=tag.round)
        return None

    def newest(self) -> Kept | None:
        """What the UE keeps now; None where it has not begun."""
        paths = sorted(self._folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
        return self._read(paths[-1]) if paths else None

    def put(self, tag: Tag, kept: Kept) -> None:
        """Keep what the UE has after it computed on the model of a tag; what was kept of later models is gone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        rows = {name: row.contiguous() for name in _NAMES if (row := getattr(kept, name)) is not None}
        atomic.write_bytes(self._path(tag), safetensors.torch.save(rows))
        self._forget(tag)

    def _forget(self, tag: Tag) -> None:
        known = self._known(tag)
        later = [place for place in known if place > _place(tag)]
        old = sorted(place for place in known if place <= _place(tag))[:-_FILES]
        others = set(self._folder.glob("*.safetensors")) - set(known.values())
        for path in [*(known[place] for place in [*later, *old]), *others]:
            path.unlink(missing_ok=True)
        atomic.remove_partials(self._folder)

    def _path(self, tag: Tag) -> Path:
        base_round, edge_round = _place(tag)
        return self._folder / f"{_run(tag)}-{base_round:010d}-{edge_round:06d}.safetensors"

    def _known(self, tag: Tag) -> dict[tuple[int, int], Path]:
        """Files of the tag's run, by the model they are about."""
        found = {}
        for path in self._folder.glob(f"{_run(tag)}-*.safetensors"):
            _, base_round, edge_round = path.stem.split("-")
            found[int(base_round), int(edge_round)] = path
        return found

    def _read(self, path: Path) -> Kept | None:
        """The rows in a file; None, and a line in the log, for one that is spoilt or of another experiment."""
        try:
            most = _HEAD_BYTES + sum(8 * size for (size,) in self._shapes.values())
            if path.stat().st_size > most:
                raise OSError(f"it is larger than {most} bytes")
            rows = safetensors.torch.load(path.read_bytes())
        except (OSError, SafetensorError) as error:
            log("kept file unreadable", level=logging.WARNING, file=path.name, reason=str(error))
            return None
        shapes = {name: tuple(row.shape) for name, row in rows.items()}
        if shapes != self._shapes or not all(bool(torch.isfinite(row).all()) for row in rows.values()):
            log("kept file unusable", level=logging.WARNING, file=path.name, shapes=str(shapes))
            return None
        return Kept(rows.get("method"), rows.get("uplink"))


def _place(tag: Tag) -> tuple[int, int]:
    return tag.base_round, tag.edge_round


def _run(tag: Tag) -> str:
    """The run's name as part of a file's, whatever characters a parent puts in it."""
    return hashlib.blake2b(tag.run.encode(), digest_size=8).hexdigest()
