"""How importing takes less time: names that are imported when they are asked for, and no search for garbage."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec


def offered(
    package: str, known_by: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`: a name comes from the module that `known_by` has it under."""
    place = {name: module for module, names in known_by.items() for name in names}

    def found(name: str) -> object:
        if name not in place and not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")  # a module within it
        if name not in place:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        vars(sys.modules[package])[name] = answer = getattr(import_module(place[name]), name)
        return answer

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *place})

    return found, names


def begin_importing() -> None:
    """Look for no garbage while modules are imported: they leave none, and looking takes a sixth of the time."""
    gc.disable()


def end_importing() -> None:
    """Look for garbage again, if it was stopped, and never where modules are: those stay."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
