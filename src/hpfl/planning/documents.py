"""Planning problems and plans as JSON: read strictly, every fault named with its place; written in one fixed shape."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NoReturn

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.planning.downlink_rules import DOWN_BITS, downlink_from_json
from hpfl.planning.edge_lists import CODING_NOISE, codings_from_json, edge_lists
from hpfl.planning.ordering import by_edge
from hpfl.planning.problem import Plan, RoundProblem
from hpfl.planning.rules import (
    EDGE_FIELDS,
    SKETCH,
    TOP_FIELDS,
    UE_FIELDS,
    Field,
    PlaceName,
    ProblemError,
    column,
    known_spectrum,
    shown,
)

JsonObject = dict[str, Any]

_EDGE_OPTIONAL = frozenset({"id", "bits", "staleness", "noise_w_per_hz", "sketch", DOWN_BITS, CODING_NOISE})
_UE_OPTIONAL = frozenset({"id", "bits", "noise_w_per_hz", "energy_j", DOWN_BITS})


def problem_from_json(source: str | bytes | Mapping[str, Any]) -> RoundProblem:
    """The round problem a JSON text (or the object parsed from it) describes; `ProblemError` names what is wrong."""
    top = _parse(source) if isinstance(source, str | bytes) else dict(source)
    optional = frozenset({"spectrum", "downlink", "codings"})
    _check_rows([top], frozenset(TOP_FIELDS) | {"edges"} | optional, optional, lambda _: "")
    numbers = {key: _number(top, key, field) for key, field in TOP_FIELDS.items()}
    edges = _list_of_rows(top["edges"], "edges")
    _check_rows(edges, frozenset(EDGE_FIELDS) | {"ues"} | _EDGE_OPTIONAL, _EDGE_OPTIONAL, _edge_place)
    groups = [_list_of_rows(edge["ues"], f"edges[{k}].ues") for k, edge in enumerate(edges)]
    ues = list(chain.from_iterable(groups))
    first = np.concatenate(([0], np.cumsum([len(group) for group in groups])))
    ue_place = _ue_places(first)
    _check_rows(ues, frozenset(UE_FIELDS) | {"id", DOWN_BITS}, _UE_OPTIONAL, ue_place)
    problem = _assemble(numbers, edges, ues, first=first, ue_place=ue_place)
    spectrum = known_spectrum(top.get("spectrum", "fixed"))
    places, model_bits = (_edge_place, ue_place), numbers["model_bits"]
    down = downlink_from_json(top.get("downlink"), problem.links, (edges, ues), places=places, model_bits=model_bits)
    menu = codings_from_json(top.get("codings"), edges, problem.importance)
    links = problem.links if menu is None else problem.links.carrying(menu.ue_bits[0], menu.edge_bits[0])
    if down is not None and menu is not None:  # the one step that a document knows, whatever uploads are coded by
        down = replace(down, step_bits=len(menu) * down.step_bits, message_bits=len(menu) * down.message_bits)
    return replace(problem, spectrum=spectrum, downlink=down, codings=menu, links=links, trusted=True)


def _assemble(
    numbers: dict[str, float], edges: list[JsonObject], ues: list[JsonObject], *, first: IntArray, ue_place: PlaceName
) -> RoundProblem:
    defaults = {"bits": numbers["model_bits"], "noise_w_per_hz": numbers["noise_w_per_hz"], "staleness": 0}
    edge = {key: _values(edges, key, field, _edge_place, defaults) for key, field in EDGE_FIELDS.items()}
    ue = {key: _values(ues, key, field, ue_place, defaults) for key, field in UE_FIELDS.items() if key != "energy_j"}
    return RoundProblem(
        bandwidth_hz=numbers["bandwidth_hz"],
        rho=numbers["rho"],
        phi=numbers["phi"],
        max_edges=int(numbers["max_edges"]),
        staleness_bound=int(numbers["staleness_bound"]),
        edge_gain=edge["gain"],
        edge_power_w=edge["power_w"],
        edge_noise_w_per_hz=edge["noise_w_per_hz"],
        edge_bits=edge["bits"],
        importance=edge["importance"],
        staleness=edge["staleness"].astype(np.int64),
        edge_of_ue=np.repeat(np.arange(len(edges), dtype=np.int64), np.diff(first)),
        ue_gain=ue["gain"],
        ue_power_w=ue["power_w"],
        ue_noise_w_per_hz=ue["noise_w_per_hz"],
        ue_bits=ue["bits"],
        compute_s=ue["compute_s"],
        ue_energy_j=_energies(ues, ue_place),
        sketches=edge_lists(edges, "sketch", SKETCH),
        edge_ids=_ids(edges, np.array([0, len(edges)]), _edge_place),
        ue_ids=_ids(ues, first, ue_place),
        trusted=True,  # column by column, with places of the document
    )


def _parse(text: str | bytes) -> JsonObject:
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        top = json.loads(decoded, object_pairs_hook=_row)
    except UnicodeDecodeError as error:
        raise ProblemError(f"byte {error.start} is not UTF-8 text; a JSON file was wanted") from None
    except json.JSONDecodeError as error:
        raise ProblemError(f"line {error.lineno}, column {error.colno} is not JSON: {error.msg}") from None
    except RecursionError:
        raise ProblemError(
            "the document is nested far too deeply; edges and their ues are all the depth there is"
        ) from None
    except ValueError as error:  # Python refuses whole numbers of more than some 4,300 digits
        raise ProblemError(f"a number in the document cannot be read: {error}") from None
    if not isinstance(top, dict):
        raise ProblemError(f"the document is {shown(top)}; a JSON object was wanted")
    return top


def _row(pairs: list[tuple[str, Any]]) -> JsonObject:
    """One JSON object; a key that comes twice leaves a mark, which is found where the object's place is known."""
    row: dict[Any, Any] = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        row[_Twice(next(key for key in keys if keys.count(key) > 1))] = None
    return row


class _Twice:
    """Marks a key that a JSON object gave twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def _list_of_rows(value: object, place: str) -> list[JsonObject]:
    if not isinstance(value, list):
        raise ProblemError(f"{place} is {shown(value)}; a list of objects was wanted")
    if not value:
        raise ProblemError(f"{place} is empty; at least one was wanted")
    if set(map(type, value)) != {dict}:
        index = next(i for i, item in enumerate(value) if not isinstance(item, dict))
        raise ProblemError(f"{place}[{index}] is {shown(value[index])}; an object was wanted")
    return value


def _check_rows(rows: list[JsonObject], known: frozenset[str], optional: frozenset[str], place: PlaceName) -> None:
    """Every row has the keys it needs and no other; rows are compared by their few distinct sets of keys."""
    required = known - optional
    bad = {shape for shape in set(map(tuple, rows)) if not required <= set(shape) <= known}
    if not bad:
        return
    index = next(i for i, row in enumerate(rows) if tuple(row) in bad)
    _refuse_keys(list(rows[index]), known, required, place(index))


def _refuse_keys(keys: list[Any], known: frozenset[str], required: frozenset[str], place: str) -> NoReturn:
    prefix = f"{place}." if place else ""
    for key in keys:
        if isinstance(key, _Twice):
            raise ProblemError(f"{prefix}{_name(key.key)} is given twice")
    for key in keys:
        if key not in known:
            raise ProblemError(f"{prefix}{_name(key)} is unknown; {place or 'the document'} may have {_listed(known)}")
    missing = sorted(required - set(keys))
    raise ProblemError(f"{prefix}{missing[0]} is missing; {place or 'the document'} needs {_listed(required)}")


def _listed(keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys))


def _name(key: object) -> str:
    return key if isinstance(key, str) and key.isidentifier() and len(key) <= 40 else shown(key)


def _number(top: JsonObject, key: str, field: Field) -> float:
    return float(column([top[key]], field, lambda _: key)[0])


def _values(rows: list[JsonObject], key: str, field: Field, place: PlaceName, defaults: dict[str, float]) -> FloatArray:
    default = defaults.get(key)
    return column([row.get(key, default) for row in rows], field, lambda index: f"{place(index)}.{key}")


def _energies(ues: list[JsonObject], place: PlaceName) -> FloatArray | None:
    """Energy budgets in J, infinite where a UE has none; None where no UE has one."""
    having = [index for index, ue in enumerate(ues) if "energy_j" in ue]
    if not having:
        return None
    energy_j = np.full(len(ues), np.inf)
    values = [ues[index]["energy_j"] for index in having]
    energy_j[having] = column(values, UE_FIELDS["energy_j"], lambda i: f"{place(having[i])}.energy_j")
    return energy_j


def _ids(rows: list[JsonObject], first: IntArray, place: PlaceName) -> tuple[str, ...]:
    """Ids, by default a row's position among its siblings; rows `first[j]:first[j+1]` are siblings and must differ."""
    ids = [row.get("id") for row in rows]
    if set(map(type, ids)) != {str} or "" in ids:
        for index, (row, given) in enumerate(zip(rows, ids, strict=True)):
            if "id" in row and (not isinstance(given, str) or not given):
                raise ProblemError(f"{place(index)}.id is {shown(given)}; an id must be a string that is not empty")
    starts = np.repeat(first[:-1], np.diff(first)).tolist()
    named = [
        str(i - start) if given is None else given for i, (given, start) in enumerate(zip(ids, starts, strict=True))
    ]
    for low, high in pairwise(first.tolist()):
        if len(set(named[low:high])) != high - low:
            _refuse_twin(named, low, high, place)
    return tuple(named)


def _refuse_twin(ids: list[str], low: int, high: int, place: PlaceName) -> NoReturn:
    seen: dict[str, int] = {}
    for index in range(low, high):
        if ids[index] in seen:
            twin = place(seen[ids[index]])
            raise ProblemError(f"{place(index)}.id is {shown(ids[index])}, as is that of {twin}; ids must differ")
        seen[ids[index]] = index
    raise AssertionError("called with ids that differ")


def _edge_place(index: int) -> str:
    return f"edges[{index}]"


def _ue_places(first: IntArray) -> PlaceName:
    def place(index: int) -> str:
        edge = int(np.searchsorted(first, index, side="right")) - 1
        return f"edges[{edge}].ues[{index - int(first[edge])}]"

    return place


def plan_to_json(problem: RoundProblem, plan: Plan, planning_s: float) -> dict[str, Any]:
    """The plan as the object `hpfl plan --json` prints: ids, Hz and seconds; null for the times of links left out."""
    problem, order = by_edge(problem)
    plan = plan if order is None else plan.of_ues(order)
    K = plan.scheduled.size
    first = np.searchsorted(problem.edge_of_ue, np.arange(K + 1)).tolist()
    edge_rows = zip(
        problem.names,
        plan.scheduled.tolist(),
        _nullable(plan.latency_s),
        _nullable(plan.edge_phase_s),
        plan.edge_bandwidth_hz.tolist(),
        strict=True,
    )
    keys = ("id", "scheduled", "latency_s", "edge_phase_s", "bandwidth_hz")
    edges = [dict(zip(keys, row, strict=True)) for row in edge_rows]
    if plan.switch_s is not None:
        edges = [row | {"switch_s": at_s} for row, at_s in zip(edges, _nullable(plan.switch_s), strict=True)]
    ues = _ue_rows(problem, plan, first)
    return {
        "planner": plan.planner,
        "scheduled": [name for name, chosen in zip(problem.names, plan.scheduled, strict=True) if chosen],
        "round_latency_s": float(plan.round_latency_s),
        **({} if problem.codings is None else {"coding": plan.coding}),
        "objective": float(plan.objective),
        "lower_bound": _finite(plan.lower_bound),
        "relative_gap": _finite(plan.relative_gap),
        "exceeds_cap": bool(plan.exceeds_cap),
        "phases_s": plan.phases_s,
        "planning_s": float(planning_s),
        **({} if problem.spectrum == "fixed" else _over_time(plan)),
        "edges": [row | {"ues": ues[first[k] : first[k + 1]]} for k, row in enumerate(edges)],
    }


def _over_time(plan: Plan) -> JsonObject:
    """What there is to say of a plan that may share the band anew in each phase."""
    return {
        "spectrum": "phased",
        "bound_covers": plan.bound_covers,
        "any_time_least_s": float(plan.any_time_least_s),
    }


def _ue_rows(problem: RoundProblem, plan: Plan, first: list[int]) -> list[JsonObject]:
    positions = (str(i) for low, high in pairwise(first) for i in range(high - low))
    columns = zip(
        problem.ue_ids or positions,
        plan.ue_bandwidth_hz.tolist(),
        plan.ue_power_w.tolist(),
        _nullable(plan.upload_s),
        strict=True,
    )
    return [{"id": i, "bandwidth_hz": b, "power_w": p, "upload_s": u} for i, b, p, u in columns]


def _finite(value: float) -> float | None:
    """A number, or null where no bound is known."""
    return float(value) if math.isfinite(value) else None


def _nullable(seconds: FloatArray) -> list[float | None]:
    return [None if s != s else s for s in seconds.tolist()]  # noqa: PLR0124  only NaN differs from itself
