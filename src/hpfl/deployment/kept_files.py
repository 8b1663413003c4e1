"""Small files of rows on a node's own disk: one for each of the last models that it has worked on, of one run."""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from hpfl import atomic
from hpfl.deployment.logs import log
from hpfl.deployment.wire import Tag

ModelPlace = tuple[int, int]
"""Which model a file is about: its base round, and the edge's own round on it."""

_FILES = 16  # models that a node can go back by
_HEAD_BYTES = 4096  # more than a file's head takes


def place_of(tag: Tag) -> ModelPlace:
    """The model that a tag is about."""
    return tag.base_round, tag.edge_round


class KeptFiles:
    """Rows by name, of the sizes that are given, after each of the last models; of the newest run alone."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._folder = folder
        self._shapes = {name: (size,) for name, size in sizes.items() if size}

    def places(self, tag: Tag) -> list[ModelPlace]:
        """The models of the tag's run that there are files of, in order."""
        return sorted(self._known(tag))

    def at(self, tag: Tag, place: ModelPlace) -> Mapping[str, torch.Tensor] | None:
        """The rows after a model of the tag's run; None where there are none, or none that can be used."""
        path = self._path(tag, place)
        return self._read(path) if path.exists() else None

    def newest(self) -> Mapping[str, torch.Tensor] | None:
        """The rows that were written last."""
        paths = sorted(self._folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
        return self._read(paths[-1]) if paths else None

    def put(self, tag: Tag, rows: Mapping[str, torch.Tensor]) -> None:
        """Keep rows after the model of a tag; what was kept of later models is gone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = safetensors.torch.save({name: row.contiguous() for name, row in rows.items()})
        atomic.write_bytes(self._path(tag, place_of(tag)), content)
        self._forget(tag)

    def _forget(self, tag: Tag) -> None:
        known = self._known(tag)
        later = [place for place in known if place > place_of(tag)]
        old = sorted(place for place in known if place <= place_of(tag))[:-_FILES]
        others = set(self._folder.glob("*.safetensors")) - set(known.values())
        for path in [*(known[place] for place in [*later, *old]), *others]:
            path.unlink(missing_ok=True)
        atomic.remove_partials(self._folder)

    def _path(self, tag: Tag, place: ModelPlace) -> Path:
        base_round, edge_round = place
        return self._folder / f"{_run(tag)}-{base_round:010d}-{edge_round:06d}.safetensors"

    def _known(self, tag: Tag) -> dict[ModelPlace, Path]:
        """Files of the tag's run, by the model they are about."""
        found = {}
        for path in self._folder.glob(f"{_run(tag)}-*.safetensors"):
            _, base_round, edge_round = path.stem.split("-")
            found[int(base_round), int(edge_round)] = path
        return found

    def _read(self, path: Path) -> Mapping[str, torch.Tensor] | None:
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
        return rows


def _run(tag: Tag) -> str:
    """The run's name as part of a file's, whatever characters a parent puts in it."""
    return hashlib.blake2b(tag.run.encode(), digest_size=8).hexdigest()
