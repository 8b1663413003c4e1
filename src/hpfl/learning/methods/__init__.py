"""The shipped methods, one small file each."""

from hpfl.learning.methods import fedavg, per_fedavg

__all__ = ["fedavg", "per_fedavg"]
