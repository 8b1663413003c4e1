"""Lists of numbers that edges of a document have, as many for each: sketches, and the noise of a menu of codings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.codings import Codings
from hpfl.planning.rules import BITS, NOT_NEGATIVE, Field, ProblemError, column, shown

CODING_NOISE = "coding_noise"
"""On an edge of a document: what each coding is expected to add to its update, none by default."""

_NOISE = Field("what a coding adds to an update", NOT_NEGATIVE, low=0.0)
_HOPS = ("ue_bits", "edge_bits")


def edge_lists(edges: Sequence[Mapping[str, Any]], key: str, rule: Field) -> FloatArray | None:
    """The lists [K, length] under a key; None where no edge has one."""
    if not any(key in edge for edge in edges):
        return None
    for k, edge in enumerate(edges):
        if key not in edge:
            raise ProblemError(f"edges[{k}].{key} is missing; either every edge has a {key} or none")
        _check_list(edge[key], f"edges[{k}].{key}")
    length = len(edges[0][key])
    for k, edge in enumerate(edges):
        if len(edge[key]) != length:
            raise ProblemError(f"edges[{k}].{key} has {len(edge[key])} entries; edges[0].{key} has {length}")
    flat = list(chain.from_iterable(edge[key] for edge in edges))
    entries = column(flat, rule, lambda i: f"edges[{i // length}].{key}[{i % length}]")
    return entries.reshape(len(edges), length)


def codings_from_json(said: object, edges: Sequence[Mapping[str, Any]], importance: FloatArray) -> Codings | None:
    """The menu of codings that a document describes beside its edges; None where it does not."""
    noise = edge_lists(edges, CODING_NOISE, _NOISE)
    if said is None:
        if noise is not None:
            raise ProblemError(f"edges[0].{CODING_NOISE} is given; codings with ue_bits and edge_bits were wanted too")
        return None
    if not isinstance(said, Mapping) or set(said) != set(_HOPS):
        raise ProblemError(f"codings is {shown(said)}; an object with {' and '.join(_HOPS)} was wanted")
    for name in _HOPS:
        _check_list(said[name], f"codings.{name}")
    ue_bits, edge_bits = (tuple(_bits(said, name)) for name in _HOPS)
    if noise is None:
        noise = np.zeros((len(edges), len(ue_bits)))
    return _with_usual(Codings(ue_bits=ue_bits, edge_bits=edge_bits, noise=noise), importance)


def usable_codings(codings: Codings | None, num_edges: int, importance: FloatArray) -> Codings | None:
    """A menu whose numbers can be planned with, or None; `ProblemError` names a fault."""
    if codings is None:
        return None
    for name in _HOPS:
        column(list(getattr(codings, name)), BITS, lambda i, name=name: f"codings.{name}[{i}]")  # type: ignore[misc]
    noise = np.asarray(codings.noise)
    if len(noise) != num_edges:
        raise ProblemError(f"codings.noise has {len(noise)} rows; one for each of {num_edges} edges was wanted")
    wrong = _NOISE.first_wrong(noise.ravel())
    if wrong is not None:
        k, entry = divmod(wrong, noise.shape[1])
        _NOISE.refuse(noise[k, entry].item(), f"codings.noise[{k}, {entry}]")
    return _with_usual(codings, importance)


def _with_usual(codings: Codings, importance: FloatArray) -> Codings:
    """The menu with what its entries usually add: where it does not say, their noise over importance."""
    if codings.usual:
        return codings
    signal = float(importance.sum())
    shares = codings.noise.sum(axis=0) / signal if signal > 0 else np.zeros(len(codings))
    return replace(codings, usual=tuple(shares.tolist()))


def _bits(said: Mapping[str, Any], name: str) -> list[float]:
    return [float(bits) for bits in column(said[name], BITS, lambda i: f"codings.{name}[{i}]")]


def _check_list(value: object, place: str) -> None:
    if not isinstance(value, list) or not value:
        raise ProblemError(f"{place} is {shown(value)}; a list of numbers was wanted")
