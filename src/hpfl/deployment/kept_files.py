"""Small files of rows on a node's own disk: one for each of the last models that it has worked on, of one run."""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from hpfl import atomic
from hpfl.deployment.logs import log
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.wire import Tag

ModelPlace = tuple[int, int]
"""Which model a file is about: its base round, and the edge's own round on it."""

_FILES = 16  # models that a node can go back by
_HEAD_BYTES = 4096  # more than a file's head takes
_PLACE = re.compile(r"[0-9a-f]{16}-(\d{10,})-(\d{6,})")
_DIGEST = "blake2b"


def place_of(tag: Tag) -> ModelPlace:
    """The model that a tag is about."""
    return tag.base_round, tag.edge_round


class KeptFiles:
    """Rows by name, of the sizes that are given, after each of the last models; of the newest run alone."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._folder = folder
        self._shapes = {name: (size,) for name, size in sizes.items() if size}
        if self._shapes:
            _refuse_a_file(folder)

    def places(self, tag: Tag) -> list[ModelPlace]:
        """The models of the tag's run that there are files of, in order."""
        return sorted(self._known(tag))

    def at(self, tag: Tag, place: ModelPlace) -> Mapping[str, torch.Tensor] | None:
        """The rows after a model of the tag's run; None where there are none, or none that can be used."""
        path = self._path(tag, place)
        return self._read(path) if path.exists() else None

    def newest(self) -> Mapping[str, torch.Tensor] | None:
        """The rows that were written last."""
        paths = sorted(self._folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return next((rows for path in paths if (rows := self._read(path)) is not None), None)

    def put(self, tag: Tag, rows: Mapping[str, torch.Tensor]) -> None:
        """Keep rows after the model of a tag; what was kept of later models is gone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        own = {name: row.contiguous() for name, row in rows.items()}
        content = safetensors.torch.save(own, metadata={_DIGEST: _digest(own)})
        atomic.write_bytes(self._path(tag, place_of(tag)), content)
        self._forget(tag)

    def _forget(self, tag: Tag) -> None:
        known = self._known(tag)
        later = [place for place in known if place > place_of(tag)]
        old = sorted(place for place in known if place <= place_of(tag))[:-_FILES]
        others = {path for path in self._folder.glob("*.safetensors") if path.is_file()} - set(known.values())
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
            place = _PLACE.fullmatch(path.stem)
            if place is not None:
                found[int(place[1]), int(place[2])] = path
        return found

    def _read(self, path: Path) -> Mapping[str, torch.Tensor] | None:
        """The rows in a file; None, and a line in the log, for one that is spoilt or of another experiment."""
        try:
            most = _HEAD_BYTES + sum(8 * size for (size,) in self._shapes.values())
            if path.stat().st_size > most:
                raise OSError(f"it is larger than {most} bytes")
            rows = _whole(path.read_bytes())
        except (OSError, SafetensorError, ValueError) as error:
            log("kept file unreadable", level=logging.WARNING, file=path.name, reason=str(error))
            return None
        shapes = {name: tuple(row.shape) for name, row in rows.items()}
        if shapes != self._shapes or not all(bool(torch.isfinite(row).all()) for row in rows.values()):
            log("kept file unusable", level=logging.WARNING, file=path.name, shapes=str(shapes))
            return None
        return rows


def _refuse_a_file(folder: Path) -> None:
    """Find out at the start that nothing could be kept."""
    there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not there.is_dir():
        raise SettingsError(f"state is {folder}, and {there} is a file; wanted a folder, so remove it or name another")


def _whole(content: bytes) -> Mapping[str, torch.Tensor]:
    """The rows in a file; raises for one that is not what was written. Earlier versions wrote no digest."""
    rows = safetensors.torch.load(content)
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    said = (head.get("__metadata__") or {}).get(_DIGEST)
    if said is not None and said != _digest(rows):
        raise ValueError("its digest differs")
    return rows


def _digest(rows: Mapping[str, torch.Tensor]) -> str:
    """A digest of the rows by name and type."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(rows):
        found.update(f"{name} {rows[name].dtype} ".encode())
        found.update(rows[name].reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _run(tag: Tag) -> str:
    """The run's name as part of a file's, whatever characters a parent puts in it."""
    return hashlib.blake2b(tag.run.encode(), digest_size=8).hexdigest()
