"""What may be said of the way down in a planning problem, by arrays or by a document, and how it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import IntArray
from hpfl.network.downlink import Powers
from hpfl.network.links import Links
from hpfl.planning.rules import BITS, MOST_WHOLE, NOT_NEGATIVE, POWER_W, Field, PlaceName, ProblemError, column, shown

if TYPE_CHECKING:
    from hpfl.planning.broadcast import Downlink

DOWN_BITS = "down_bits"
"""On an edge or a UE of a document: bits that it lacks of the current model, none by default."""

_SNR = Field("a signal over noise density in Hz")
_COUNT = Field("a number of UEs", "be a whole number, 0 or more", low=0.0, high=MOST_WHOLE, whole=True)
_RECEIVING_W = Field("what a receiver draws in W", NOT_NEGATIVE, low=0.0)
_ARRAYS = {"edge_snr_hz": _SNR, "cell_snr_hz": _SNR, "edge_bits": BITS, "cell_bits": BITS, "cell_ues": _COUNT}
_NUMBERS = {"model_bits": Field("the size of the model in bits"), "again_bits": BITS}
_POWERS = {
    "cloud_power_w": ("cloud_w", POWER_W),
    "edge_power_w": ("edge_w", POWER_W),
    "ue_receive_power_w": ("ue_receive_w", _RECEIVING_W),
    "edge_receive_power_w": ("edge_receive_w", _RECEIVING_W),
}


def usable_downlink(downlink: Any, num_edges: int) -> Any:
    """A `Downlink` as planners take it, or None; `ProblemError` names a fault."""
    if downlink is None:
        return None
    made = {name: _each(name, getattr(downlink, name), rule, num_edges) for name, rule in _ARRAYS.items()}
    for name, rule in _NUMBERS.items():
        column([getattr(downlink, name)], rule, lambda _, name=name: f"downlink.{name}")  # type: ignore[misc]
    if not downlink.step_bits or len(downlink.step_bits) != len(downlink.message_bits):
        came = f"{len(downlink.step_bits)} and {len(downlink.message_bits)}"
        raise ProblemError(f"downlink.step_bits and message_bits have {came} entries; one of each coding was wanted")
    return replace(downlink, **made)


def _each(name: str, value: object, rule: Field, count: int) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.shape != (count,):
        raise ProblemError(
            f"downlink.{name} has the shape {array.shape}; a number for each of {count} edges was wanted"
        )
    judged = np.where(np.isposinf(array), 1.0, array) if name == "cell_snr_hz" else array  # infinite without a UE
    wrong = rule.first_wrong(judged)
    if wrong is not None:
        rule.refuse(array[wrong].item(), f"downlink.{name}[{wrong}]")
    return array.astype(np.int64 if rule.whole else np.float64, copy=False)


def downlink_from_json(
    said: object,
    links: Links,
    rows: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
    *,
    places: tuple[PlaceName, PlaceName],
    model_bits: float,
) -> "Downlink | None":
    """The way down that a document describes beside its edges and UEs (`rows`); None where it does not.

    Gains are those of the way up; everybody that the document names hears if its edge does.
    """
    from hpfl.planning.broadcast import Downlink  # which needs the record of the problem that this is read into

    lacks = [
        column([row.get(DOWN_BITS, 0.0) for row in some], BITS, lambda i, place=place: f"{place(i)}.{DOWN_BITS}")  # type: ignore[misc]
        for some, place in zip(rows, places, strict=True)
    ]
    if said is None:
        _refuse_alone(rows, places)
        return None
    powers, step_bits = _numbers(said, model_bits)
    K, edge_of = links.num_edges, links.edge_of_ue
    cell_snr_hz, cell_bits = np.full(K, np.inf), np.zeros(K)
    np.minimum.at(cell_snr_hz, edge_of, powers.edge_w * (links.ue_gain / links.ue_noise_w_per_hz))
    np.maximum.at(cell_bits, edge_of, np.minimum(lacks[1], model_bits))
    return Downlink(
        edge_snr_hz=powers.cloud_w * (links.edge_gain / links.edge_noise_w_per_hz),
        cell_snr_hz=cell_snr_hz,
        edge_bits=np.minimum(lacks[0], model_bits),
        cell_bits=cell_bits,
        cell_ues=_counts(edge_of, K),
        model_bits=model_bits,
        step_bits=(step_bits,),
        message_bits=(np.inf,),
        powers=powers,
    )


def _counts(edge_of: IntArray, num_edges: int) -> IntArray:
    return np.bincount(edge_of, minlength=num_edges).astype(np.int64)


def _refuse_alone(rows: tuple[Sequence[Mapping[str, Any]], ...], places: tuple[PlaceName, ...]) -> None:
    for some, place in zip(rows, places, strict=True):
        for index, row in enumerate(some):
            if DOWN_BITS in row:
                raise ProblemError(f"{place(index)}.{DOWN_BITS} is given; that needs a downlink")


def _numbers(said: object, model_bits: float) -> tuple[Powers, float]:
    if not isinstance(said, dict):
        raise ProblemError(f"downlink is {shown(said)}; an object was wanted")
    unknown = [key for key in said if key not in {*_POWERS, "step_bits"}]
    if unknown:
        may = ", ".join(sorted([*_POWERS, "step_bits"]))
        raise ProblemError(f"downlink.{unknown[0]} is unknown; downlink may have {may}")
    usual = {entry.name: entry.default for entry in fields(Powers)}
    watts = {
        field: float(column([said.get(key, usual[field])], rule, lambda _, key=key: f"downlink.{key}")[0])  # type: ignore[misc]
        for key, (field, rule) in _POWERS.items()
    }
    bits = column([said.get("step_bits", model_bits)], BITS, lambda _: "downlink.step_bits")
    return Powers(**watts), float(bits[0])
