"""Who reads a configuration key: which parts, by their traits, and which runs, by where the code looks at it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hpfl
from hpfl.config.kinds import kinds
from hpfl.config.whole import Config
from hpfl.registry import OURS, Registry
from reference_pages.markdown import code

SOURCE = Path(hpfl.__file__).parent
REFUSED = {"training.trigger", "network.coherence_s", "network.trace", "network.write_trace", "privacy.adaptive"}
"""Keys that a deployed cloud looks at only to refuse what needs a simulator; and the whole of section `life`."""
VIRTUAL = {"training.clock", "training.clock_options"}
"""Keys of virtual time, which no deployed run has."""
_TRAITS = {
    "planning.rho": "rho",
    "planning.phi": "phi",
    "planning.max_edges": "max_edges",
    "data.labels_per_ue": "labels_per_ue",
    "data.concentration": "concentration",
    "learning.inner_lr": "inner_lr",
    "learning.inner_steps": "inner_steps",
    "network.ue_gain_db": "gain_db",
    "network.edge_gain_db": "gain_db",
    "network.path_loss_exponent": "exponent",
    "network.carrier_ghz": "carrier_ghz",
}
"""What a key is called in the trait `reads` of the parts that may ask for it."""
_NO_RUN = {"config", "studies"}
"""Rooms that look at keys and run nothing by them."""


def read_by(place: str) -> str:
    """Who reads a key, in words: parts, else runs."""
    if place in _TRAITS:
        return "; ".join(_parts_that_read(place))
    if place.endswith("_options"):
        return "the part that is named"
    return "simulated runs" if simulated_only(place) else "all runs"


def simulated_only(place: str) -> bool:
    """Whether no deployed run reads it."""
    if place.startswith("life.") or place in REFUSED | VIRTUAL:
        return True
    rooms = {file.split("/")[0] for file in uses().get(place, ())} - _NO_RUN
    return bool(rooms) and rooms <= {"simulation", "experiment.py"}


def _parts_that_read(place: str) -> Iterator[str]:
    trait = _TRAITS[place]
    for kind in kinds():
        if "reads" not in kind.registry.traits or kind.places[0].split(".")[0] != place.split(".", maxsplit=1)[0]:
            continue
        names = [name for name in shipped(kind.registry) if _asks(kind.registry.part(name), trait)]
        if names:
            yield f"{kind.registry.plural if len(names) > 1 else kind.name} {', '.join(map(code, names))}"


def shipped(registry: Registry[Any]) -> list[str]:
    """The names of HPFL's own parts; those that need an extra are imported only if it is here."""
    return [name for name in registry if registry.part(name).origin == OURS]


def _asks(part: Any, trait: str) -> bool:
    reads = part.traits["reads"]
    return reads is None or trait in (reads(part.read({})) if callable(reads) else reads)


@cache
def uses() -> dict[str, set[str]]:
    """The files that look at each key, `section.key` -> `room/file.py`, found in their syntax trees."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for place in _places(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(place, set()).add(path.relative_to(SOURCE).as_posix())
    return found


def _places(tree: ast.Module) -> Iterator[str]:
    """`config.network.edges`, and `network.edges` where `network` was taken from a configuration before."""
    aliases = {name: section for node in ast.walk(tree) for name, section in _named(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            section = _section(node.value) or (aliases.get(node.value.id) if isinstance(node.value, ast.Name) else None)
            if section and node.attr in Config.model_fields[section].annotation.model_fields:
                yield f"{section}.{node.attr}"


def _section(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) and node.attr in Config.model_fields else None


def _named(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that stand for a section: `network, life = config.network, config.life`, `network: NetworkConfig`."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pair = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = zip(target.elts, node.value.elts, strict=False) if pair else [(target, node.value)]
            yield from ((name.id, _section(value)) for name, value in pairs if _is_alias(name, value))
    if isinstance(node, ast.arg) and node.annotation is not None:
        models = {info.annotation.__name__: section for section, info in Config.model_fields.items()}
        if ast.unparse(node.annotation) in models:
            yield node.arg, models[ast.unparse(node.annotation)]


def _is_alias(name: ast.AST, value: ast.AST) -> bool:
    return isinstance(name, ast.Name) and _section(value) is not None
