"""Data sets, and how UEs share them; what a data set or a partitioner of one's own needs is here."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, Owners
    from hpfl.data.federated import FederatedData
    from hpfl.data.label_placement import PartitionSettings, check_total
    from hpfl.data.partition import PARTITIONERS, Partitioner
    from hpfl.data.shards import PartitionError, Shards
    from hpfl.data.sources import DATASETS, load_dataset

__all__ = [
    "DATASETS",
    "PARTITIONERS",
    "Dataset",
    "DatasetError",
    "DatasetSpec",
    "FederatedData",
    "Owners",
    "PartitionError",
    "PartitionSettings",
    "Partitioner",
    "Shards",
    "check_total",
    "load_dataset",
]

_KNOWN_BY = {
    "hpfl.data.dataset": ("Dataset", "DatasetError", "DatasetSpec", "Owners"),
    "hpfl.data.federated": ("FederatedData",),
    "hpfl.data.partition": ("PARTITIONERS", "Partitioner"),
    "hpfl.data.label_placement": ("PartitionSettings", "check_total"),
    "hpfl.data.shards": ("PartitionError", "Shards"),
    "hpfl.data.sources": ("DATASETS", "load_dataset"),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
