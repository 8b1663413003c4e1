"""Parts handed over in Python instead of named: what a saved configuration and a fingerprint say of them."""

import hashlib
from typing import Any

import torch

from hpfl.registry import Registry, UnknownNameError, imported

GIVEN = "given:"
"""What begins the name of a part that no name leads back to; whoever runs the configuration again hands it over."""


def part(registry: Registry[Any], value: Any) -> Any:
    """A registered name, "module:callable", or a callable: by its importable name where it has one, else itself."""
    if isinstance(value, str):
        _check_name(registry, value)
        return value
    if not callable(value):
        raise ValueError(f"wanted a name, module:callable or a callable, not {type(value).__name__}")
    path = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    return path if _leads_to(path, value) else value


def name_of(value: Any) -> Any:
    """The name of a part: its own, or for one without `given:` and what tells it from others."""
    if isinstance(value, str) or not callable(value):
        return value
    return f"{GIVEN}{getattr(value, '__name__', type(value).__name__)}-{_identity(value)}"


def _check_name(registry: Registry[Any], name: str) -> None:
    if name.startswith(GIVEN):
        return
    registry.part(name)  # its error names the known ones


def _leads_to(path: str, value: Any) -> bool:
    """Whether the name finds this very object in another process: not what a script or a function made."""
    if path.startswith(("__main__:", ":")) or path.endswith(":") or "<" in path:
        return False
    try:
        return imported(path) is value
    except UnknownNameError:
        return False


def _identity(value: Any) -> str:
    """Eight digits of a hash of a module's layers and values, or of a function's code."""
    digest = hashlib.blake2b(digest_size=4)
    if isinstance(value, torch.nn.Module):
        digest.update(repr(value).encode())
        for name, tensor in value.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    else:
        code = getattr(value, "__code__", None)
        parts = (code.co_code, code.co_names, code.co_consts) if code is not None else (type(value).__qualname__,)
        digest.update(repr(parts).encode())
    return digest.hexdigest()
