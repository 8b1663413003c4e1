"""How a value of tensors, arrays and plain parts is written down, as named tensors and a note of each, and read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Tensors = dict[str, torch.Tensor]
Note = dict[str, Any]


class UnwritableError(ValueError):
    """A value that would not come back as it was."""


def taken_apart(name: str, value: Any, tensors: Tensors) -> Note:
    """What a value is, or itself as JSON; the tensors and arrays in it join `tensors`, as `name` or `name/key`."""
    if isinstance(value, torch.Tensor):
        return _put(name, value.detach().to("cpu", copy=True).contiguous(), tensors, "tensor")
    if isinstance(value, np.ndarray):
        return _put(name, _as_tensor(value, name), tensors, "array")
    if _holds_arrays(value):
        for key, array in value.items():
            _put(f"{name}/{key}", _as_tensor(array, f"{name}/{key}"), tensors, "array")
        return {"kind": "arrays", "keys": list(value)}
    if _holds_tensors(value):
        parts = {key: taken_apart(f"{name}/{key}", one, tensors) for key, one in value.items()}
        return {"kind": "mapping", "parts": parts}
    return {"kind": "json", "value": _as_json(value, name)}


def put_together(name: str, note: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    """The value that was taken apart."""
    match note["kind"]:
        case "tensor":
            return tensors[name]
        case "array":
            return tensors[name].numpy()
        case "arrays":
            return {key: tensors[f"{name}/{key}"].numpy() for key in note["keys"]}
        case "mapping":
            return {key: put_together(f"{name}/{key}", part, tensors) for key, part in note["parts"].items()}
        case "json":
            return note["value"]
        case other:
            raise ValueError(f"field {name!r} is of unknown kind {other!r}")


def _put(name: str, tensor: torch.Tensor, tensors: Tensors, kind: str) -> Note:
    if name in tensors:
        raise UnwritableError(f"two parts are called {name}; wanted names without /")
    tensors[name] = tensor
    return {"kind": kind}


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(v, np.ndarray) for v in value.values())


def _holds_tensors(value: Any) -> bool:
    """Whether a tensor or array is among the values of a mapping by names, or of mappings in it."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return False
    return any(isinstance(one, torch.Tensor | np.ndarray) or _holds_tensors(one) for one in value.values())


def _as_tensor(array: NDArray[Any], where: str) -> torch.Tensor:
    try:
        return torch.from_numpy(np.array(array, order="C"))
    except (TypeError, ValueError) as error:
        raise UnwritableError(f"{where} has type {array.dtype}, which a checkpoint cannot hold") from error


def _as_json(value: Any, where: str) -> Any:
    """`value` if JSON gives it back as itself: a tuple would return as a list, and a resumed run might differ."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_as_json(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _as_json(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise UnwritableError(f"{where} is {type(value).__name__} {value!r:.60}; JSON gives back only its own types")
