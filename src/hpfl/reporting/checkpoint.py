"""A run between two rounds as one safetensors file that shows every damage, and the newest of them that is whole."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from hpfl import atomic
from hpfl.row_files import RowFileError
from hpfl.row_folder import Noted, RowFolder
from hpfl.training.state import UNLESS_EMPTY, TrainState
from hpfl.training.written_state import UnwritableError, put_together, taken_apart

FORMAT = "hpfl checkpoint 1"
MAX_HEADER_BYTES = 64 * 2**20
"""Numbers, planner memory and names go into the header, for which safetensors allows 100 MB."""

HistoryMarks = Mapping[str, str]
"""What a checkpoint vouches for: by the names of files, how far each reached then, and its digest."""
Fits = Callable[[int, HistoryMarks], str]
"""Why a run cannot go on from the checkpoint of a round, which has these marks; empty where it can."""
Restored = Callable[[int, Mapping[str, Noted]], dict[str, Any]]
"""The rows of many UEs that the checkpoint of a round notes, from where they lie."""

_NAME = re.compile(r"round-(\d{8,})\.safetensors")
_OF_ROWS = ("slots", "sums")
_UNREADABLE = (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError)


class CheckpointError(Exception):
    """No checkpoint to continue from, or a state that cannot be written down."""


class DamagedError(Exception):
    """A file that is not what was written."""


class OtherConfigurationError(CheckpointError):
    """A whole checkpoint of a run with another configuration."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The state to continue from, on the CPU; None where nothing was ever saved. Notes name what was passed over."""

    state: TrainState | None
    marks: HistoryMarks = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def save_checkpoint(
    folder: Path,
    state: TrainState,
    *,
    fingerprint: str,
    marks: HistoryMarks | None = None,
    keep: int = 2,
    rows: RowFolder | None = None,
) -> Path:
    """Write `state` at once, then prune all but the `keep` newest; a crash leaves the previous ones untouched.

    Rows of many UEs are left to `rows`, which writes what has changed (None: they are written whole).
    """
    own, notes = (state.kept, {}) if rows is None else rows.noted(state.round, state.kept)
    try:
        tensors, fields = _taken_apart(state.but(kept=own))
    except UnwritableError as error:
        raise CheckpointError(str(error)) from error
    told = {"format": FORMAT, "fingerprint": fingerprint, "fields": fields, "marks": marks or {}}
    header = json.dumps(told | ({"rows": _rows_apart(notes, tensors)} if notes else {}))
    if len(header) > MAX_HEADER_BYTES:
        raise CheckpointError(f"planner memory takes {len(header)} bytes as JSON; {MAX_HEADER_BYTES} are allowed")
    if not folder.exists():
        folder.mkdir(parents=True)
        atomic.sync_folder(folder.parent)  # its name, and those of the files that it vouches for
    path = folder / f"round-{state.round:08d}.safetensors"
    with atomic.replacing(path) as partial:
        metadata = {"hpfl": header, "blake2b": _checksum(header, tensors)}
        safetensors.torch.save_file(tensors, partial, metadata=metadata)
    kept = _prune(folder, newest=state.round, keep=keep)
    if rows is not None:
        rows.keep(kept)
    return path


def load_latest(
    folder: Path,
    *,
    fingerprint: str,
    fits: Fits = lambda number, marks: "",
    restored: Restored = lambda number, notes: {},
) -> Loaded:
    """The newest whole checkpoint that `fits`; the others are named in notes and passed over."""
    notes: list[str] = []
    found = sorted(_checkpoints(folder).items(), reverse=True)
    for number, path in found:
        try:
            state, marks = _read(path, fingerprint, restored)
        except DamagedError as error:
            notes.append(f"{path.name} is damaged ({error}) and was passed over")
            continue
        if why := fits(number, marks):
            notes.append(f"{path.name} was passed over: {why}")
        else:
            return Loaded(state=state, marks=marks, notes=tuple(notes))
    if notes:
        raise CheckpointError(f"no usable checkpoint in {folder}: {'; '.join(notes)}")
    return Loaded(state=None)


def _read(path: Path, fingerprint: str, restored: Restored) -> tuple[TrainState, HistoryMarks]:
    try:
        header, tensors = _verified(path)
        written_by = header["fingerprint"]
        state = _put_together(tensors, header["fields"])
        notes = {name: _rows_together(name, note, tensors) for name, note in header.get("rows", {}).items()}
    except _UNREADABLE as error:
        raise _damage(error) from error
    if written_by != fingerprint:
        raise OtherConfigurationError(f"{path} was written with another configuration")
    try:
        rows = restored(state.round, notes) if notes else {}
    except (RowFileError, *_UNREADABLE) as error:
        raise _damage(error) from error
    return state.but(kept={**state.kept, **rows}), header.get("marks", {})


def _damage(error: Exception) -> DamagedError:
    return DamagedError(" ".join(str(error).split()) or type(error).__name__)


def _rows_apart(notes: Mapping[str, Noted], tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What a header says of rows; their slots and sums join the tensors."""
    for name, note in notes.items():
        for part in _OF_ROWS:
            tensors[f"rows/{name}/{part}"] = torch.from_numpy(note[part])
    return {name: {key: value for key, value in note.items() if key not in _OF_ROWS} for name, note in notes.items()}


def _rows_together(name: str, note: Noted, tensors: Mapping[str, torch.Tensor]) -> Noted:
    return {**note, **{part: tensors[f"rows/{name}/{part}"].numpy() for part in _OF_ROWS}}


def _verified(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  not a mapping
    if _checksum(metadata["hpfl"], tensors) != metadata["blake2b"]:
        raise ValueError("checksum differs")
    header: dict[str, Any] = json.loads(metadata["hpfl"])
    if header["format"] != FORMAT:
        raise ValueError(f"format is {header['format']!r}, wanted {FORMAT!r}")
    return header, tensors


def _checksum(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """BLAKE2b over the header and each tensor's name, type, shape and bytes, in the order of names."""
    digest = hashlib.blake2b(header.encode("utf-8"), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():  # torch cannot view nothing as bytes
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _taken_apart(state: TrainState) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and arrays by name, `field` or `field/key`, and for each field what it was or its value as JSON."""
    tensors: dict[str, torch.Tensor] = {}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if UNLESS_EMPTY not in field.metadata or value:
            fields[field.name] = taken_apart(field.name, value, tensors)
    return tensors, fields


def _put_together(tensors: Mapping[str, torch.Tensor], fields: Mapping[str, Any]) -> TrainState:
    return TrainState(**{name: put_together(name, note, tensors) for name, note in fields.items()})


def _checkpoints(folder: Path) -> dict[int, Path]:
    matches = {path: _NAME.fullmatch(path.name) for path in folder.glob("round-*.safetensors")}
    return {int(match[1]): path for path, match in matches.items() if match}


def _prune(folder: Path, *, newest: int, keep: int) -> set[int]:
    """Keep the `keep` newest up to `newest`, and tell which; later ones are what a rewound run left behind."""
    found = _checkpoints(folder)
    kept = sorted((number for number in found if number <= newest), reverse=True)[: max(keep, 1)]
    for number, path in found.items():
        if number not in kept:
            path.unlink(missing_ok=True)
    atomic.remove_partials(folder)
    return set(kept)
