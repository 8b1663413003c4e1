"""The shipped methods, one small file each."""

from hpfl.learning.methods import (
    apfl,
    ditto,
    fedala,
    fedavg,
    fedavg_ft,
    fedbabu,
    fedper,
    fedprox,
    fedrep,
    local_only,
    per_fedavg,
    pfedme,
    scaffold,
)

__all__ = [
    "apfl",
    "ditto",
    "fedala",
    "fedavg",
    "fedavg_ft",
    "fedbabu",
    "fedper",
    "fedprox",
    "fedrep",
    "local_only",
    "per_fedavg",
    "pfedme",
    "scaffold",
]
