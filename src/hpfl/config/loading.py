"""From a preset or a TOML file, a system and overrides to one validated configuration."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpfl.config.errors import ConfigError, from_validation, known_keys, near, unknown
from hpfl.config.handing import part_keys
from hpfl.config.named import OPTIONS, slots_of
from hpfl.config.old_keys import OLD_KEYS, RenewedSection, put_back
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

_ONE_EDGE: Tree = {"network": {"edges": 1, "backhaul": False}, "planning": {"planner": "full"}}
_SHARED: Tree = {"learning": {"inner_lr": 0.0}}
_SETTINGS: dict[str, Tree] = {
    "fl": _ONE_EDGE | _SHARED,
    "pfl": _ONE_EDGE,
    "hfl": _SHARED,
    "hpfl": {},
    "shpfl": {"planning": {"planner": "shpfl"}},
}
"""What each sets; a shared model is method per-fedavg without an inner step, which is FedAvg."""
_OLD_NAMES = frozenset(old.old for old in OLD_KEYS)
_TWO_TIERS = ("fl", "pfl")
_SHAPE = ("network.edges", "network.ues_per_edge")


@cache
def preset_names() -> tuple[str, ...]:
    """The shipped presets."""
    order = {"quickstart": 0, "quickstart-paper": 1, "paper-mnist": 2, "paper-cifar10": 3, "massive": 4}
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


def load(source: str | Path, *, system: str | None = None, overrides: Iterable[str] = (), **parts: Any) -> Config:
    """A preset's name or a TOML file with `section.key=value` overrides, as a system; validated whole.

    Overrides win over the system, but for the shape of the network, which a two-tier system gathers under one edge.
    What is "auto" stays so, and follows whatever is changed later; `resolve` fills it in, as `run` does. `parts` are
    handed over in Python, by the names of their keys: `planner=mine, planner_options={...}`.
    """
    tree = _tree(source)
    for section, keys in part_keys(parts).items():
        tree[section] = {**tree.get(section, {}), **keys}
    system, overrides = _system(system, tree, list(overrides))
    config = validated(tree)
    if source in preset_names():
        config._shipped = {f"{section}.{name}": value for section, part in tree.items() for name, value in part.items()}
    return _as_system(config, system, overrides)


def varied(config: Config, overrides: Iterable[str]) -> Config:
    """A configuration with overrides, `system=NAME` among them, as `load` takes them with a preset or a file."""
    system, overrides = _system(None, {}, list(overrides))
    return _as_system(config, system, overrides)


def _as_system(config: Config, system: str | None, overrides: list[str]) -> Config:
    """With the overrides, and as a system, whose settings those win over; but for its shape of the network."""
    config = with_overrides(config, overrides)
    if system is None:
        return config
    shape = _SHAPE if system in _TWO_TIERS else ()
    kept = [text for text in overrides if not text.strip().startswith(shape)]
    return with_overrides(apply_system(config, system), kept)


def _system(asked: str | None, tree: Tree, overrides: list[str]) -> tuple[str | None, list[str]]:
    """The system of a run, said as an argument, as `--set system=...` or in a file, where it is taken out."""
    said = {"--system": asked} if asked is not None else {}
    said |= {f"--set {text}": text.partition("=")[2].strip(" \"'") for text in overrides if _names_system(text)}
    if isinstance(tree.get("system"), str):
        said["system in the file"] = tree.pop("system")
    if len(set(said.values())) > 1:
        raise ConfigError(f"{' and '.join(f'{who} is {what!r}' for who, what in said.items())}; give one")
    return next(iter(said.values()), None), [text for text in overrides if not _names_system(text)]


def _names_system(text: str) -> bool:
    return text.partition("=")[0].strip() == "system"


def validated(tree: Mapping[str, Any]) -> Config:
    """A configuration from plain data, or a `ConfigError` naming every fault."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise from_validation(error) from None


def changed(config: Config, given: Mapping[str, Mapping[str, Any]]) -> Config:
    """The configuration with other values in some keys, by section; a part that changes leaves its options behind."""
    tree = config.tree()
    for section, keys in given.items():
        own = tree[section]
        put_back(section, own, keys)
        for name in slots_of(type(getattr(config, section))):
            if keys.get(name, before := getattr(getattr(config, section), name)) != before:
                own[name + OPTIONS] = {}
        own.update(keys)
    return validated(tree).like(config)


def with_parts(config: Config, parts: Mapping[str, Any]) -> Config:
    """The configuration with parts that are handed over in Python, by the names of their keys."""
    return changed(config, part_keys(parts)) if parts else config


def apply_system(config: Config, system: str) -> Config:
    """The same experiment as another system; the personalised accuracy keeps the preset's adaptation step."""
    if system not in SYSTEMS:
        raise ConfigError(f"no system is called {system!r}; there are {', '.join(SYSTEMS)}")
    given: dict[str, Tree] = {name: dict(keys) for name, keys in _SETTINGS[system].items()}
    if config.evaluation.inner_lr == "auto":
        given["evaluation"] = {"inner_lr": config.learning.inner_lr}
    if system in _TWO_TIERS:
        given["network"] |= {"ues_per_edge": config.network.num_ues}
    return changed(config, given)


def with_overrides(config: Config, overrides: Iterable[str]) -> Config:
    """Apply `section.key=value` or `section.key_options.option=value`; a value is TOML, what is not TOML is text."""
    system, overrides = _system(None, {}, list(overrides))
    config = config if system is None else apply_system(config, system)
    given: dict[str, Tree] = {}
    single: dict[tuple[str, str], Tree] = {}
    asked = set()
    for text in overrides:
        section, name, option, value = _override(text)
        if option:
            single.setdefault((section, name), {})[option] = value
        else:
            given.setdefault(section, {})[name] = value
        place = f"{section}.{name}.{option}".rstrip(".")
        asked |= {place, *(old.new for old in OLD_KEYS if old.old == place)}
    for (section, name), options in single.items():
        keys = given.setdefault(section, {})
        keys[name] = {**_table(getattr(config, section), name, keys), **options}
    if not given:
        return config
    made = changed(config, given)
    made._asked = config._asked | asked
    return made


def _table(section: RenewedSection, name: str, keys: Tree) -> Tree:
    """The options that single ones are added to: those given beside them, else those of the part if it stays."""
    slot = name.removesuffix(OPTIONS)
    chosen = getattr(section, slot)
    stays = keys.get(slot, chosen) == chosen
    table = keys.get(name, getattr(section, name) if stays else {})
    return table if isinstance(table, dict) else {}


def _override(text: str) -> tuple[str, str, str, Any]:
    """Section, key, option of a part (or nothing) and value of one override."""
    place, equals, value = text.partition("=")
    name, option = place.strip(), ""
    if name.count(".") == 2:
        name, _, option = name.rpartition(".")
    if not equals or name.count(".") != 1:
        meant = " or ".join(f"{key}={value}" for key in near(name) if "." in key) if equals else ""
        hint = f"; did you mean {meant}?" if meant else ""
        raise ConfigError(f"--set {text} is not of the form section.key=value{hint}")
    _refuse_unknown(name, option)
    section, entry = name.split(".")
    return section, entry, option, toml_value(value.strip())


def check_key(place: str) -> None:
    """Refuse what is neither `section.key`, nor `section.key_options.option`, nor `system`."""
    name, option = place.rsplit(".", 1) if place.count(".") == 2 else (place, "")
    if place != "system":
        _refuse_unknown(name, option)


def _refuse_unknown(name: str, option: str) -> None:
    if name.count(".") != 1 or (name not in known_keys() and name not in _OLD_NAMES):
        raise ConfigError(unknown(name))
    if option and not name.endswith(OPTIONS):
        takes = f"{name}{OPTIONS}" in known_keys()
        hint = f"; did you mean {name}{OPTIONS}.{option}?" if takes else f"; {name} has no options"
        raise ConfigError(f"{name}.{option} is not a key{hint}")


def toml_value(text: str) -> Any:
    """A value as TOML writes it; what is not TOML is text."""
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
