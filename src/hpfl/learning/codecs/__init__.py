"""The shipped codecs, one small file each: steps of an uplink that make an update fewer bits when it is sent."""

from hpfl.learning.codecs import random_k, rounding, ternary, top_k

__all__ = ["random_k", "rounding", "ternary", "top_k"]
