"""Keys by the names they had before: where each is found now, and how what was written so is still read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from hpfl.config.fields import Section
from hpfl.config.named import OPTIONS, slots_of

WHOLE = "whole_sentence"
"""The type of an error whose message is all there is to say."""


@dataclass(frozen=True)
class OldKey:
    """A key that is called otherwise now: another key of its section, or an option of one part.

    `later`: at its default it never was part of a fingerprint. `stays`: it could be given, though unread, beside any
    part, and was part of the fingerprint: so it is kept until the part that reads it is chosen.
    """

    old: str  # section.key
    new: str  # section.key, or section.key_options.option
    default: Any
    part: str = ""  # whose option it is
    later: bool = False
    stays: bool = False

    @property
    def section(self) -> str:
        """The section, which is the same as ever."""
        return self.old.split(".")[0]

    @property
    def name(self) -> str:
        """The old name within the section."""
        return self.old.split(".")[1]

    @property
    def key(self) -> str:
        """The key that chooses: it is called so now, or the part it names has the option."""
        return self.new.split(".")[1].removesuffix(OPTIONS)

    @property
    def option(self) -> str:
        """The option of the part; empty where it is a key."""
        return self.new.split(".")[2] if self.part else ""


OLD_KEYS = (
    OldKey("training.aggregation", "training.combine", "mean"),
    OldKey("network.fading", "network.channel_options.fading", "rayleigh", part="path-loss-and-fading"),
    OldKey("learning.objective", "learning.method_options.gradient", "exact", part="per-fedavg"),
    OldKey("learning.hessian_free_delta", "learning.method_options.delta", 1e-3, part="per-fedavg"),
    OldKey("planning.script", "planning.planner_options.script", [], part="scripted"),
    OldKey(
        "planning.staleness_price",
        "planning.planner_options.staleness_price",
        "learned",
        part="fastest",
        later=True,
        stays=True,
    ),
)
"""The whole table."""


@cache
def old_keys(section: str) -> tuple[OldKey, ...]:
    """Those of one section."""
    return tuple(old for old in OLD_KEYS if old.section == section)


def was(place: str) -> str:
    """What a key, or an option with `_options` in its place, was called before; empty: it was not called otherwise."""
    return next((old.old for old in OLD_KEYS if old.new == place), "")


def table_of(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The options beside a key as they are written; what is no table is refused elsewhere."""
    table = tree.get(name + OPTIONS)
    return dict(table) if isinstance(table, Mapping) else {}


def renewed(section: str, tree: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A section as it is written now, and what in it nothing reads but `stays`; `chosen` are the keys' defaults."""
    made, unread = dict(tree), {}
    for old in old_keys(section):
        if old.name not in made:
            continue
        value, now = made.pop(old.name), made.get(old.key, chosen.get(old.key))
        if not old.part:
            _check_agreement(old, value, made.get(old.key, value))
            made[old.key] = value
        elif not isinstance(made.get(old.key + OPTIONS, {}), Mapping):
            continue  # refused as it is
        elif now == old.part:
            options = table_of(made, old.key)
            _check_agreement(old, value, options.get(old.option, value))
            made[old.key + OPTIONS] = options | {old.option: value}
        elif old.stays and value != old.default:
            unread[old.name] = value
        elif value != old.default:
            raise PydanticCustomError(WHOLE, "{said}", {"said": _unreadable(old, value, now)})
    return made, unread


def put_back(section: str, tree: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Make room in a section that was written before for what is `given` now, by old names or new ones."""
    for old in old_keys(section):
        options = table_of(tree, old.key)
        moved = given.get(old.key, tree.get(old.key)) != tree.get(old.key)
        if old.stays and moved and options.get(old.option, old.default) != old.default:
            tree.setdefault(old.name, options[old.option])
        if old.name in given and old.part:
            tree[old.key + OPTIONS] = {name: value for name, value in options.items() if name != old.option}
        elif old.name in given and tree.pop(old.key, None) != given[old.name]:
            tree[old.key + OPTIONS] = {}
        if old.option and old.option in table_of(given, old.key):
            tree.pop(old.name, None)


class RenewedSection(Section):
    """A section of which some keys had other names before."""

    _unread: dict[str, Any] = PrivateAttr(default_factory=dict)  # old keys that no chosen part reads
    _sealed: bool = PrivateAttr(default=False)

    @model_validator(mode="wrap")
    @classmethod
    def _renewed(cls, value: Any, handler: Any) -> Any:
        if not isinstance(value, Mapping):
            return handler(value)
        defaults = {name: cls.model_fields[name].default for name in slots_of(cls)}
        tree, unread = renewed(cls.section, value, defaults)
        made = handler(tree)
        made._unread = unread
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_sealed" and self._sealed:
            raise AttributeError(f"{self.section}.{name} is of an experiment, which is fixed; change its configuration")
        super().__setattr__(name, value)

    def tree(self) -> dict[str, Any]:
        """Everything that is written in it."""
        return self.model_dump() | self._unread

    def unread_keys(self) -> tuple[OldKey, ...]:
        """The old keys in it that no chosen part reads."""
        return tuple(old for old in old_keys(self.section) if old.name in self._unread)

    def sealed(self) -> "RenewedSection":
        """A copy that cannot be changed, without options that are as by default."""
        meant = {name + OPTIONS: self.meant_options(name) for name in slots_of(type(self))}
        copy = self.model_copy(update=meant)
        copy._unread, copy._sealed = dict(self._unread), True
        return copy

    def options(self, name: str) -> Any:
        """The options of the part that the key `name` names, validated; None where it has none."""
        return slots_of(type(self))[name].read(getattr(self, name), getattr(self, name + OPTIONS))

    def told(self, name: str) -> dict[str, Any]:
        """The options that are other than by default, as plain data."""
        read = self.options(name)
        return {} if read is None else dict(read.model_dump(mode="json", exclude_defaults=True))

    def meant_options(self, name: str) -> dict[str, Any]:
        """What was written as options, less those that are as by default."""
        told = self.told(name)
        return {option: value for option, value in getattr(self, name + OPTIONS).items() if option in told}

    def bound(self, name: str) -> Any:
        """The part that the key `name` names, with its options."""
        return slots_of(type(self))[name].bound(getattr(self, name), getattr(self, name + OPTIONS))


def old_key(place: str) -> Any:
    """A key by its old name, as an attribute of its section."""
    old = next(entry for entry in OLD_KEYS if entry.old == place)

    def get(section: RenewedSection) -> Any:
        if not old.part:
            return getattr(section, old.key)
        if old.name in section._unread or getattr(section, old.key) != old.part:
            return section._unread.get(old.name, old.default)
        return getattr(section.options(old.key), old.option)

    def put(section: RenewedSection, value: Any) -> None:
        if not old.part:
            setattr(section, old.key, value)
            return
        slots_of(type(section))[old.key].read(old.part, {old.option: value})
        if getattr(section, old.key) == old.part:
            setattr(section, old.key + OPTIONS, getattr(section, old.key + OPTIONS) | {old.option: value})
        else:  # until the part is chosen that reads it
            section._unread = section._unread | {old.name: value}

    return property(get, put, doc=f"What is {old.new} now.")


def _check_agreement(old: OldKey, value: Any, now: Any) -> None:
    if value != now:
        said = f"{old.old} is {value!r} and {old.new} is {now!r}; the first is an old name of the second: give one"
        raise PydanticCustomError(WHOLE, "{said}", {"said": said})


def _unreadable(old: OldKey, value: Any, chosen: Any) -> str:
    place = f"{old.section}.{old.key}"
    return f'{old.old} is {value!r}, and {place} is "{chosen}"; only "{old.part}" reads it, as {old.new}'
