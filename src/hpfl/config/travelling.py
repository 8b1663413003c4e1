"""A configuration as plain data, of which another process makes the very same one."""

from collections.abc import Iterator, Mapping
from typing import Any

from hpfl.config.errors import ConfigError
from hpfl.config.given import name_of
from hpfl.config.loading import validated
from hpfl.config.whole import Config


def to_plain(config: Config) -> dict[str, Any]:
    """What JSON can hold of it, which is all; a part that only this process knows is refused."""
    tree = config.tree()
    for section, keys in tree.items():
        for key, value in keys.items():
            for part in _objects(value):
                raise ConfigError(
                    f"{section}.{key} is {name_of(part)}, an object that other processes cannot find; put it into a "
                    "module and name it module:callable"
                )
    return {"tree": tree, "shipped": dict(config._shipped), "asked": sorted(config._asked)}


def from_plain(plain: Mapping[str, Any]) -> Config:
    """The configuration that `to_plain` was given."""
    config = validated(plain["tree"])
    config._shipped, config._asked = dict(plain["shipped"]), frozenset(plain["asked"])
    return config


def _objects(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _objects(inner)
    elif callable(value) or (isinstance(value, str) and value.startswith("given:")):
        yield value
