"""Users' own samples in files: one folder, `.safetensors` or `.npz` file per UE, with the same four arrays in each.

A UE's arrays are `inputs` and `targets` and, where it has test samples, `test_inputs` and `test_targets`. A folder of
UEs may group them by edge: its subfolders are then the edges, in the order of their names. What the arrays do not tell
(`num_classes`, `sample_bits`, `held_out`) may stand in its `about.json`. A folder that holds the four arrays itself is
nobody's: its samples are dealt by a partitioner.
"""

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from hpfl.data.dataset import Dataset, DatasetError
from hpfl.data.federated import FederatedData, SamplesOfUe

NAMES = ("inputs", "targets", "test_inputs", "test_targets")
PACKED, ABOUT = "data.safetensors", "about.json"
_MOST_BYTES = 16 * 10**9
_FILES = (".safetensors", ".npz")
_TOLD: dict[str, tuple[type, ...]] = {"num_classes": (int,), "sample_bits": (int,), "held_out": (int, float)}


def read_own(path: Path, *, tested: bool) -> dict[str, NDArray[Any]]:
    """One UE's arrays by name, of which the test samples may be missing unless they are wanted (`tested`)."""
    try:
        arrays = _read(path)
        training = {name: arrays[name] for name in NAMES[:2]}
        there = [name for name in NAMES[2:] if name in arrays]
        return training | {name: arrays[name] for name in (NAMES[2:] if tested or there else ())}
    except (OSError, KeyError, ValueError, SafetensorError, zipfile.BadZipFile) as error:
        wanted = ", ".join(f"{name}.npy" for name in NAMES)
        raise DatasetError(f"{path} holds no data ({error}); wanted {wanted} or {PACKED}") from None


def read_folder(folder: Path) -> FederatedData:
    """The samples of all UEs below a folder, in the order of the UEs' names, whatever edge they sit under."""
    if not folder.is_dir():
        raise DatasetError(f"{folder} is not a folder; folder:PATH wants one with a folder or a file per UE")
    edges = [entry for entry in _sorted(folder) if entry.is_dir() and not _is_ue(entry)]
    found: list[tuple[Path, int | None]] = [(entry, None) for entry in _sorted(folder) if _is_ue(entry)]
    if edges and found:
        raise DatasetError(f"{folder} has UEs ({found[0][0].name}) beside folders of UEs ({edges[0].name}); wanted one")
    ues = found or [(entry, k) for k, edge in enumerate(edges) for entry in _sorted(edge) if _is_ue(entry)]
    if not ues:
        raise DatasetError(f"{folder} holds no UE; wanted a folder, a .safetensors or an .npz file for each")
    if len({entry.name for entry, _ in ues}) == len(ues):
        ues.sort(key=lambda ue: _natural(ue[0].name))
    parts = [read_own(entry, tested=False) for entry, _ in ues]
    tested = [len(part) == len(NAMES) for part in parts]
    if any(tested) and not all(tested):
        raise DatasetError(f"{ues[tested.index(False)][0]} has no test samples, others have; wanted all or none")
    return FederatedData(
        train=[_pair(part, NAMES[:2]) for part in parts],
        test=[_pair(part, NAMES[2:]) for part in parts] if all(tested) else None,
        edge_of_ue=None if found else [k for _, k in ues if k is not None],
        name=folder.name,
        **_told(folder),
    )


def is_pooled(folder: Path) -> bool:
    """Whether a folder holds samples that belong to nobody: arrays of its own, and no UEs."""
    return folder.is_dir() and _is_ue(folder)


def read_pooled(folder: Path) -> Dataset:
    """The samples of a folder that belong to nobody, training and test samples both; a partitioner deals them."""
    part, told = read_own(folder, tested=True), _told(folder)
    if "held_out" in told:
        raise DatasetError(f"{folder / ABOUT}: held_out is for samples of UEs; these are dealt, and have test samples")
    whole = FederatedData(train=[_pair(part, NAMES[:2])], test=[_pair(part, NAMES[2:])], name=folder.name, **told)
    return replace(whole.dataset, owners=None)


def write_folder(data: FederatedData, folder: Path) -> None:
    """Everybody's samples as `read_folder` finds them: `edge-0/ue-00.safetensors`, or `ue-00.safetensors`."""
    width = len(str(data.num_ues - 1))
    for ue in range(data.num_ues):
        home = folder if data.edge_of_ue is None else folder / f"edge-{int(data.edge_of_ue[ue])}"
        home.mkdir(parents=True, exist_ok=True)
        pairs = zip(NAMES, (*data.train[ue], *(data.test[ue] if data.test is not None else ())), strict=False)
        arrays = {name: np.ascontiguousarray(array) for name, array in pairs}
        safetensors.numpy.save_file(arrays, home / f"ue-{ue:0{width}}.safetensors")
    told = {name: getattr(data, name) for name in _TOLD if getattr(data, name) is not None}
    (folder / ABOUT).write_text(json.dumps(told) + "\n", encoding="utf-8")


def _told(folder: Path) -> dict[str, Any]:
    """What `about.json` says of all samples; nothing where there is none."""
    path = folder / ABOUT
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DatasetError(f"{path} is not JSON: {error}") from None
    if not isinstance(told, dict):
        raise DatasetError(f"{path} is {type(told).__name__}; wanted an object")
    for name, value in told.items():
        if name not in _TOLD or not isinstance(value, _TOLD[name]) or isinstance(value, bool):
            raise DatasetError(f"{path}: {name} is {value!r}; it may have numbers for {', '.join(_TOLD)}")
    return told


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if path.suffix == ".npz":
        _refuse_huge(path)
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    if path.suffix == ".safetensors":
        return dict(safetensors.numpy.load_file(path))
    if (path / PACKED).is_file():
        return dict(safetensors.numpy.load_file(path / PACKED))
    there = [name for name in NAMES if (path / f"{name}.npy").is_file()]
    missing = [name for name in NAMES[:2] if name not in there]
    if missing:
        raise KeyError(f"{missing[0]}.npy is missing")
    return {name: np.load(path / f"{name}.npy", allow_pickle=False) for name in there}


def _refuse_huge(path: Path) -> None:
    """Refuse an archive that says it unpacks to more than any UE has."""
    with zipfile.ZipFile(path) as packed:
        total = sum(info.file_size for info in packed.infolist())
    if total > _MOST_BYTES:
        raise ValueError(f"it unpacks to {total / 1e9:.3g} GB, more than {_MOST_BYTES / 1e9:.3g} GB")


def _is_ue(entry: Path) -> bool:
    if entry.is_dir():
        return (entry / PACKED).is_file() or any((entry / f"{name}.npy").is_file() for name in NAMES)
    return entry.suffix in _FILES


def _sorted(folder: Path) -> list[Path]:
    """Entries in natural order: `ue-9` before `ue-10`."""
    return sorted(
        (entry for entry in folder.iterdir() if not entry.name.startswith(".")), key=lambda e: _natural(e.name)
    )


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


def _pair(part: dict[str, NDArray[Any]], names: tuple[str, ...]) -> SamplesOfUe:
    return part[names[0]], part[names[1]]
