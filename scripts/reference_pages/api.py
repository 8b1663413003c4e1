"""The pages of the public names: every name of every package's `__all__`, with the first line said of it."""

import ast
import importlib
import inspect
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hpfl.registry import Registry
from reference_pages.markdown import MADE, code, table

ROOMS = (
    "hpfl.planning",
    "hpfl.network",
    "hpfl.data",
    "hpfl.learning",
    "hpfl.training",
    "hpfl.attacks",
    "hpfl.secrecy",
    "hpfl.privacy",
    "hpfl.simulation",
    "hpfl.reporting",
)
"""Packages whose `__all__` is a promise to those who extend them."""
PACKAGES = ("hpfl", *ROOMS, "hpfl.options", "hpfl.rng")
_NAMES = {"hpfl.options": ("Options", "option"), "hpfl.rng": ("Stream", "Streams")}
"""The public names of modules without an `__all__`."""


def public_names(package: str) -> list[str]:
    """What a package promises, but its version."""
    names = _NAMES.get(package) or importlib.import_module(package).__all__
    return [name for name in names if not name.startswith("__")]


def said(package: str, name: str) -> str:
    """What is said of a name: its docstring, or the string below the line that defines it."""
    found = getattr(importlib.import_module(package), name)
    if inspect.isclass(found) or inspect.isroutine(found):
        return inspect.getdoc(found) or ""
    below = _said_below(found, name)
    return f"All {found.plural} by name. {below}".strip() if isinstance(found, Registry) else below


def _said_below(found: Any, name: str) -> str:
    """The string under `NAME = ...`, which Python itself forgets, in whichever module of ours has it."""
    modules = [
        one for key, one in sorted(sys.modules.items()) if key.startswith("hpfl.") and getattr(one, "__file__", "")
    ]
    texts = (_below(Path(str(one.__file__)), name) for one in modules if vars(one).get(name) is found)
    return next((text for text in texts if text), "")


def _below(path: Path, name: str) -> str:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for line, after in pairwise(body):
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        named = any(isinstance(one, ast.Name) and one.id == name for one in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
    return ""


def api_page() -> str:
    """`docs/reference/api.md`."""
    return _INTRO + "\n".join(map(_package, PACKAGES)) + "\n" + _TREE


_INTRO = f"""\
# Public names

{MADE}
What these packages list in `__all__` is meant for you; everything else may move. `hpfl` is what most programs need, the
others are for [parts of your own](../extending.md). Each package has a page of its own with signatures and docstrings
on the site (`make docs`).

"""


_TREE = "```{toctree}\n:hidden:\n\n" + "".join(f"api/{package}\n" for package in PACKAGES) + "```\n"


def _package(package: str) -> str:
    about = _first(importlib.import_module(package).__doc__ or "")
    rows = [(code(name), _first(said(package, name))) for name in public_names(package)]
    lead = _wrapped(f"{about} [In full](api/{package}.md).")
    return f"## {package}\n\n{lead}\n\n{table(('name', 'what it is'), rows)}"


def package_page(package: str) -> str:
    """`docs/reference/api/PACKAGE.md`: what autodoc makes of its docstrings."""
    blocks = "\n".join(_block(package, name) for name in public_names(package))
    about = _wrapped(_first(importlib.import_module(package).__doc__ or ""))
    return f"# {package}\n\n{MADE}\n{about}\n\n{blocks}"


def _block(package: str, name: str) -> str:
    found = getattr(importlib.import_module(package), name)
    before = next((one for one in PACKAGES if name in public_names(one) and _is_same(found, one, name)), package)
    if before != package:
        return f"`{package}.{name}` is described as [{before}.{name}]({before}.md).\n"
    if inspect.isclass(found):
        within = ":members:\n   :exclude-members: model_config, model_post_init" if _is_model(found) else ":members:"
        return _directive(f"autoclass:: {package}.{name}\n   {within}")
    if inspect.isroutine(found):
        return _directive(f"autofunction:: {package}.{name}")
    return f"```{{py:data}} {package}.{name}\n{_wrapped(said(package, name))}\n```\n"


def _is_same(found: Any, package: str, name: str) -> bool:
    return getattr(importlib.import_module(package), name) is found


def _directive(text: str) -> str:
    return f"```{{eval-rst}}\n.. {text}\n```\n"


def _is_model(found: type) -> bool:
    return issubclass(found, BaseModel)


def _first(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False, break_long_words=False)
