"""From a preset or a TOML file, a system and overrides to one validated configuration."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpfl.config.errors import ConfigError, from_validation, known_keys, near, unknown
from hpfl.config.whole import Config

Tree = dict[str, Any]

_LARGEST_FILE_BYTES = 1_000_000

SYSTEMS: dict[str, str] = {
    "fl": "two tiers, one shared model: every UE reports to the cloud, which stands where its edge would",
    "pfl": "two tiers, a model each UE can adapt (Per-FedAvg); the cloud stands where the edge would",
    "hfl": "three tiers, one shared model",
    "hpfl": "three tiers, a model each UE can adapt",
    "shpfl": "hpfl with random edges and equal bandwidth",
}
"""Systems are settings of the same few fields, never separate code."""

_TWO_TIERS = ("fl", "pfl")
_SHAPE = ("network.edges", "network.ues_per_edge")


def preset_names() -> tuple[str, ...]:
    """The shipped presets."""
    order = {"quickstart": 0, "paper-mnist": 1, "paper-cifar10": 2, "massive": 3}
    names = [
        entry.name.removesuffix(".toml") for entry in files("hpfl.presets").iterdir() if entry.name.endswith(".toml")
    ]
    return tuple(sorted(names, key=lambda name: (order.get(name, 9), name)))


def preset_text(name: str) -> str:
    """A shipped preset's TOML."""
    if name not in preset_names():
        raise ConfigError(f"no preset is called {name!r}; there are {', '.join(preset_names())}")
    return files("hpfl.presets").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def preset(name: str, *, system: str | None = None) -> Config:
    """A shipped preset, ready to change: `config.network.bandwidth_hz = 2e6`."""
    return load(name, system=system)


def load(source: str | Path, *, system: str | None = None, overrides: Iterable[str] = ()) -> Config:
    """A preset's name or a TOML file with `section.key=value` overrides, as a system; validated whole.

    Overrides win over the system, but for the shape of the network, which a two-tier system gathers under one edge.
    What is "auto" stays so, and follows whatever is changed later; `resolve` fills it in, as `run` does.
    """
    overrides, tree = list(overrides), _tree(source)
    config = validated(tree)
    if source in preset_names():
        config._shipped = {f"{section}.{name}": value for section, part in tree.items() for name, value in part.items()}
    config = with_overrides(config, overrides)
    if system is not None:
        shape = _SHAPE if system in _TWO_TIERS else ()
        kept = [text for text in overrides if not text.strip().startswith(shape)]
        config = with_overrides(apply_system(config, system), kept)
    return config


def validated(tree: Mapping[str, Any]) -> Config:
    """A configuration from plain data, or a `ConfigError` naming every fault."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise from_validation(error) from None


def resolve(config: Config) -> Config:
    """Check a configuration whole again (fields may have been assigned) and fill in what `auto` means."""
    config = validated(config.model_dump()).like(config)
    filled: Tree = {}
    if config.evaluation.inner_lr == "auto":
        filled["evaluation.inner_lr"] = config.evaluation.inner_lr = config.learning.inner_lr
    if config.planning.phi == "auto":
        filled["planning.phi"] = config.planning.phi = (
            5.0 * config.learning.outer_lr * config.planning.staleness_bound**2 / _edges_wanted(config)
        )
    config._shipped = config._shipped | filled  # nobody set these
    return config


def _edges_wanted(config: Config) -> int:
    """The cap A, no higher than the number of edges; one edge alone leaves nothing to weigh, and A as it is."""
    cap, there = config.planning.max_edges, config.network.edges
    return min(cap, there) if there > 1 else cap


def apply_system(config: Config, system: str) -> Config:
    """The same experiment as another system; the personalised accuracy keeps the preset's adaptation step."""
    if system not in SYSTEMS:
        raise ConfigError(f"no system is called {system!r}; there are {', '.join(SYSTEMS)}")
    tree = config.model_dump()
    if tree["evaluation"]["inner_lr"] == "auto":
        tree["evaluation"]["inner_lr"] = config.learning.inner_lr
    if system in {"fl", "hfl"}:
        tree["learning"]["inner_lr"] = 0.0
    if system in _TWO_TIERS:
        tree["network"].update(edges=1, ues_per_edge=config.network.num_ues, backhaul=False)
        tree["planning"]["planner"] = "full"
    if system == "shpfl":
        tree["planning"]["planner"] = "shpfl"
    return validated(tree).like(config)


def with_overrides(config: Config, overrides: Iterable[str]) -> Config:
    """Apply `section.key=value`; a value is TOML, and what is not TOML is text."""
    tree, asked = config.model_dump(), set()
    for text in overrides:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name.count(".") != 1:
            meant = " or ".join(f"{key}={value}" for key in near(name) if "." in key) if equals else ""
            hint = f"; did you mean {meant}?" if meant else ""
            raise ConfigError(f"--set {text} is not of the form section.key=value{hint}")
        if name not in known_keys():
            raise ConfigError(unknown(name))
        section, entry = name.split(".")
        tree[section][entry] = _value(value.strip())
        asked.add(name)
    made = validated(tree).like(config)
    made._asked = config._asked | asked
    return made


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _tree(source: str | Path) -> Tree:
    if isinstance(source, str) and source in preset_names():
        return tomllib.loads(preset_text(source))
    path = Path(source)
    if not path.is_file():
        raise ConfigError(f"{source} is neither a file nor a preset; the presets are {', '.join(preset_names())}")
    if path.stat().st_size > _LARGEST_FILE_BYTES:
        raise ConfigError(
            f"{source} has {path.stat().st_size} bytes; a configuration has at most {_LARGEST_FILE_BYTES}"
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not TOML: {error}") from None
