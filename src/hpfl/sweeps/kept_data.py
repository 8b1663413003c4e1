"""Data sets that a process has read, kept for the next run that it plays."""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

from hpfl.data.dataset import Dataset, DownloadProgress
from hpfl.data.sources import load_dataset

MOST_KEPT = 2
_kept: OrderedDict[str, Dataset] = OrderedDict()


def kept_dataset(
    name: str, data_dir: Path | None = None, *, progress: DownloadProgress | None = None, options: Any = None
) -> Dataset:
    """The data set that `load_dataset` gives, read once; the two last asked for are kept."""
    told = options.model_dump(mode="json") if hasattr(options, "model_dump") else repr(options)
    which = json.dumps([name, str(data_dir), told], sort_keys=True)
    if which not in _kept:
        _kept[which] = load_dataset(name, data_dir, progress=progress, options=options)
    _kept.move_to_end(which)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return _kept[which]
