"""A configuration as TOML that explains itself: every key with its unit, one line of meaning and its old name."""

from typing import Any

import tomlkit
from tomlkit.items import InlineTable, Item, Table

from hpfl.config.fields import said_of
from hpfl.config.given import name_of
from hpfl.config.named import OPTIONS, slots_of
from hpfl.config.old_keys import RenewedSection, was
from hpfl.config.resolved import Experiment, resolve
from hpfl.config.whole import Config
from hpfl.registry import GIVEN


def to_toml(config: Config | Experiment) -> str:
    """The whole configuration; reading it back gives the same. What "auto" comes to is said beside it."""
    document, experiment = tomlkit.document(), resolve(config)
    written = experiment.written
    for section, info in Config.model_fields.items():
        table = tomlkit.table()
        table.comment(info.description or "")
        _fill(table, getattr(written, section), getattr(experiment, section))
        document.add(section, table)
    return tomlkit.dumps(document)


def _fill(table: Table, section: RenewedSection, resolved: RenewedSection) -> None:
    """The keys, then what no chosen part reads, then a table for each part that has options."""
    slots = slots_of(type(section))
    for name, field in type(section).model_fields.items():
        if name.removesuffix(OPTIONS) in slots and name.endswith(OPTIONS):
            continue
        value, comes_to = getattr(section, name), getattr(resolved, name)
        here = f", here {comes_to:g}" if value == "auto" != comes_to else _handed(name_of(value))
        table.add(name, _item(name_of(value), _comment(field, f"{section.section}.{name}") + here))
    for old in resolved.unread_keys():
        said = f"changes nothing here: {old.new} of {old.key} {old.part}"
        table.add(old.name, _item(resolved._unread[old.name], said))
    for name in slots:
        options = resolved.options(name)
        if options is not None:
            table.add(name + OPTIONS, _options(options, f"{section.section}.{name}", getattr(section, name)))


def _handed(name: Any) -> str:
    """What is said beside a part that no file can hold."""
    return "; this one was handed over in Python, and has to be again" if _is_given(name) else ""


def _is_given(name: Any) -> bool:
    if isinstance(name, list):
        return any(_is_given(row.get("name") if isinstance(row, dict) else row) for row in name)
    return isinstance(name, str) and name.startswith(GIVEN)


def _options(options: Any, place: str, chosen: Any) -> Table:
    """Every option of a part, with its meaning."""
    table = tomlkit.table()
    table.comment(f"options of {place.partition('.')[2]} {name_of(chosen)}")
    values = options.model_dump(mode="json", exclude_none=True)
    for name, field in type(options).model_fields.items():
        if name in values:
            table.add(name, _item(values[name], _comment(field, f"{place}{OPTIONS}.{name}")))
    return table


def _item(value: Any, comment: str) -> Item:
    plain = value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
    if isinstance(plain, list):
        plain = [_inline(entry) if isinstance(entry, dict) else entry for entry in plain]
    item: Item = tomlkit.item(_inline(plain) if isinstance(plain, dict) else plain)
    item.comment(comment)
    return item


def _inline(plain: dict[str, Any]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(plain)
    return table


def _comment(field: Any, place: str) -> str:
    unit, before = said_of(field, "unit"), was(place)
    meaning = f"[{unit}] {field.description}" if unit else str(field.description)
    return f"{meaning} (was {before})" if before else meaning
