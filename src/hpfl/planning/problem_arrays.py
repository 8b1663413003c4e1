"""What the arrays of a planning problem must be: their kinds, lengths and ranges, by the rules of a document."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray
from hpfl.planning.downlink_rules import usable_downlink
from hpfl.planning.edge_lists import usable_codings
from hpfl.planning.rules import (
    COMPUTE_J,
    EDGE_FIELDS,
    LARGEST,
    MOST_WHOLE,
    OVERHEAD_S,
    SECONDS,
    SKETCH,
    TOP_FIELDS,
    UE_FIELDS,
    Field,
    ProblemError,
    as_float,
    known_spectrum,
    shown,
)
from hpfl.records import counted

_NUMBERS = {
    **{name: TOP_FIELDS[name] for name in ("bandwidth_hz", "rho", "phi", "max_edges", "staleness_bound")},
    "overhead_s": OVERHEAD_S,
}
_ARRAYS = {
    "members": Field("the number of a UE", "be a whole number, 0 or more", low=0.0, high=MOST_WHOLE, whole=True),
    "edge_gain": EDGE_FIELDS["gain"],
    "edge_power_w": EDGE_FIELDS["power_w"],
    "edge_noise_w_per_hz": EDGE_FIELDS["noise_w_per_hz"],
    "edge_bits": EDGE_FIELDS["bits"],
    "importance": EDGE_FIELDS["importance"],
    "staleness": EDGE_FIELDS["staleness"],
    "renewal_s": SECONDS,
    "ue_gain": UE_FIELDS["gain"],
    "ue_power_w": UE_FIELDS["power_w"],
    "ue_noise_w_per_hz": UE_FIELDS["noise_w_per_hz"],
    "ue_bits": UE_FIELDS["bits"],
    "compute_s": UE_FIELDS["compute_s"],
    "ue_energy_j": UE_FIELDS["energy_j"],
    "compute_j": COMPUTE_J,
}
_BOUNDLESS = frozenset({"ue_energy_j"})  # where infinity means that there is no limit
_APART = frozenset({"members", "edge_of_ue", "sketches", "edge_ids", "ue_ids"})  # have rules of their own
_NUMBER = Field("a number of an array", "be finite", low=-LARGEST)


def usable(problem: Any) -> dict[str, Any]:
    """The fields of a `RoundProblem` and its links as planners take them, from whatever NumPy reads, by name.

    `ProblemError` names a fault. An array without a rule here must at least be one of finite numbers.
    """
    K, N = _count("edge_gain", problem.edge_gain), _count("edge_of_ue", problem.edge_of_ue)
    made: dict[str, Any] = {name: _number(name, getattr(problem, name), field) for name, field in _NUMBERS.items()}
    made["edge_of_ue"] = _edge_of_ue(problem.edge_of_ue, K, N)
    made["members"] = _members(problem.members, N)
    whom = {"edge": (K, "edges"), "ue": (N, "UEs")}
    for entry, value in counted(problem):
        if entry.name not in _APART and not (value is None and entry.default is None):
            made[entry.name] = _each(entry.name, value, *whom[entry.metadata["per"]])
    made["sketches"] = _sketches(problem.sketches, K)
    made["spectrum"], made["steady"] = known_spectrum(problem.spectrum), bool(problem.steady)
    made["downlink"] = usable_downlink(problem.downlink, K)
    made["codings"] = menu = usable_codings(problem.codings, K, made["importance"])
    _refuse_other_menus(made["downlink"], menu)
    for hop in ("ue_bits", "edge_bits") if menu is not None else ():  # those of the first entry, where any are sent
        made[hop] = np.where(made[hop] > 0, getattr(menu, hop)[0], 0.0)
    made["edge_ids"] = _ids("edge_ids", problem.edge_ids, np.zeros(K, dtype=np.int64))
    made["ue_ids"] = _ids("ue_ids", problem.ue_ids, made["edge_of_ue"])
    return made


def _refuse_other_menus(downlink: Any, menu: Any) -> None:
    if downlink is not None and menu is not None and len(downlink.step_bits) != len(menu):
        raise ProblemError(
            f"downlink.step_bits has {len(downlink.step_bits)} entries; one for each of {len(menu)} codings was wanted"
        )


def _count(name: str, value: object) -> int:
    array = _read(name, value)
    if array.ndim != 1:
        raise ProblemError(f"{name} has the shape {array.shape}; one row of numbers was wanted")
    if not array.size:
        raise ProblemError(f"{name} is empty; at least one was wanted")
    return int(array.size)


def _read(name: str, value: object) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ProblemError(f"{name} is {_kind(value)}; an array of numbers was wanted")
    return array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array


def _kind(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else shown(value)


def _number(name: str, value: object, field: Field) -> float | int:
    plain: Any = value.item() if isinstance(value, np.generic) else value
    number = not isinstance(plain, bool) and isinstance(plain, Real)
    if not number or field.first_wrong(np.array([as_float(plain)])) is not None:
        field.refuse(plain, name)
    return int(plain) if field.whole else float(plain)


def _each(name: str, value: object, count: int, whom: str) -> NDArray[Any]:
    """One number for each of `count` edges or UEs, as float64, or as int64 where they are whole."""
    array = _read(name, value)
    if array.shape != (count,):
        raise ProblemError(f"{name} has the shape {array.shape}; one number for each of {count} {whom} was wanted")
    return _within(array, _ARRAYS.get(name, _NUMBER), name)


def _members(value: object, count: int) -> IntArray:
    """The UEs' own numbers; where those were their positions and the UEs are others now, positions again."""
    members = _read("members", value)
    if members.shape != (count,) and np.array_equal(members, np.arange(members.size)):
        return np.arange(count, dtype=np.int64)
    return _each("members", members, count, "UEs")


def _within(array: NDArray[Any], field: Field, name: str) -> NDArray[Any]:
    judged = np.where(np.isposinf(array), 1.0, array) if name in _BOUNDLESS else array
    wrong = field.first_wrong(judged.ravel())
    if wrong is not None:
        place = np.unravel_index(wrong, array.shape)
        field.refuse(array[place].item(), name + "".join(f"[{index}]" for index in place))
    return array.astype(np.int64 if field.whole else np.float64, copy=False)


def _edge_of_ue(value: object, num_edges: int, num_ues: int) -> IntArray:
    there = f"be a whole number from 0 to {num_edges - 1}"
    field = Field("the edge of a UE", there, low=0.0, high=num_edges - 1.0, whole=True)
    edge_of_ue = _within(_read("edge_of_ue", value), field, "edge_of_ue")
    counts = np.bincount(edge_of_ue, minlength=num_edges)
    if not counts.all():
        raise ProblemError(f"edge_of_ue has no UE of edge {int(np.argmin(counts))}; every edge needs at least one")
    return edge_of_ue


def _sketches(value: object, num_edges: int) -> FloatArray | None:
    if value is None:
        return None
    array = _read("sketches", value)
    if array.ndim != 2 or array.shape[0] != num_edges or not array.size:
        raise ProblemError(f"sketches has the shape {array.shape}; one row for each of {num_edges} edges was wanted")
    return _within(array, SKETCH, "sketches")


def _ids(name: str, value: Sequence[str] | None, edge: IntArray) -> tuple[str, ...] | None:
    """Names that differ among those of one `edge`."""
    if value is None:
        return None
    ids = (value,) if isinstance(value, str) else tuple(value)
    if len(ids) != edge.size:
        raise ProblemError(f"{name} has {len(ids)} names; {edge.size} were wanted")
    if set(map(type, ids)) == {str} and "" not in ids and len(set(zip(edge.tolist(), ids, strict=True))) == len(ids):
        return ids
    seen: dict[tuple[int, str], int] = {}
    for index, (group, given) in enumerate(zip(edge.tolist(), ids, strict=True)):
        if not isinstance(given, str) or not given:
            raise ProblemError(f"{name}[{index}] is {shown(given)}; an id must be a string that is not empty")
        twin = seen.setdefault((group, given), index)
        if twin != index:
            raise ProblemError(f"{name}[{index}] is {shown(given)}, as is {name}[{twin}]; ids must differ")
    return ids
