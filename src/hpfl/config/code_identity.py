"""What tells one object of Python from another in a later process: eight digits of its code and values."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch

_DEEPEST = 8


def identity(value: Any) -> str:
    """Eight digits of a hash of a module's layers and values, or of the code of a function, a class or a thing.

    What code looks up elsewhere, a global for one, is not told apart.
    """
    digest = hashlib.blake2b(digest_size=4)
    if isinstance(value, torch.nn.Module):
        digest.update(repr(value).encode())
        for name, tensor in value.state_dict().items():
            digest.update(name.encode())
            digest.update(_content(tensor))
    else:
        for piece in _pieces(value, _DEEPEST):
            digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    if depth == 0:
        yield type(value).__qualname__.encode()
        return
    for kind, told in _TOLD:
        if isinstance(value, kind):
            yield from told(value, depth - 1)
            return
    yield type(value).__qualname__.encode()
    if not type(value).__module__.startswith(("builtins", "torch")):
        yield from _of_class(type(value), depth - 1)
    yield from _of_mapping(getattr(value, "__dict__", {}), depth - 1)


def _of_function(value: FunctionType, depth: int) -> Iterator[bytes]:
    yield from _of_code(value.__code__, depth)
    for beside in (value.__defaults__, value.__kwdefaults__):
        if beside:
            yield from _pieces(beside, depth)
    for cell in value.__closure__ or ():
        try:
            yield from _pieces(cell.cell_contents, depth)
        except ValueError:  # it is not filled yet
            continue


def _of_code(code: CodeType, depth: int) -> Iterator[bytes]:
    """Without its file and lines; a function within is told by its own code, for its `repr` has an address."""
    if not any(isinstance(const, CodeType | frozenset) for const in code.co_consts):
        yield repr((code.co_code, code.co_names, code.co_consts)).encode()
        return
    yield repr((code.co_code, code.co_names)).encode()
    yield from _pieces(code.co_consts, depth)


def _of_class(value: type, depth: int) -> Iterator[bytes]:
    """Its own code, and that of the classes it is derived from within the same module."""
    for each in value.__mro__:
        if each.__module__ == value.__module__ and each is not object:
            own = {name: part for name, part in vars(each).items() if name not in _MADE_BY_PYTHON}
            yield each.__qualname__.encode()
            yield from _of_mapping(own, depth)


_MADE_BY_PYTHON = frozenset(
    ("__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__", "__annotate_func__")
)


def _of_mapping(value: Mapping[Any, Any], depth: int) -> Iterator[bytes]:
    for name, part in value.items():
        yield repr(name).encode()
        yield from _pieces(part, depth)


def _of_set(value: frozenset[Any] | set[Any], depth: int) -> Iterator[bytes]:
    yield from sorted(b"".join(_pieces(each, depth)) for each in value)


def _of_row(value: list[Any] | tuple[Any, ...], depth: int) -> Iterator[bytes]:
    yield f"{len(value)}:".encode()
    for each in value:
        yield from _pieces(each, depth)


def _of_partial(value: "partial[Any]", depth: int) -> Iterator[bytes]:
    yield from _pieces(value.func, depth)
    yield from _pieces(value.args, depth)
    yield from _of_mapping(value.keywords, depth)


def _content(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


_Told = Callable[[Any, int], Iterator[bytes]]
_TOLD: tuple[tuple[Any, _Told], ...] = (
    ((str, bytes, int, float, complex, type(None), type(...)), lambda value, depth: iter((repr(value).encode(),))),
    (FunctionType, _of_function),
    (CodeType, _of_code),
    (type, _of_class),
    (partial, _of_partial),
    ((staticmethod, classmethod), lambda value, depth: _pieces(value.__func__, depth)),
    (property, lambda value, depth: _pieces((value.fget, value.fset), depth)),
    ((frozenset, set), _of_set),
    ((list, tuple), _of_row),
    (Mapping, _of_mapping),
    (np.ndarray, lambda value, depth: iter((str(value.dtype).encode(), np.ascontiguousarray(value).tobytes()))),
    (torch.Tensor, lambda value, depth: iter((_content(value),))),
)
"""How each kind of value is told; a thing of any other is told by its class and what it holds."""
