"""A configuration as TOML that explains itself: every key with its unit and one line of meaning."""

import hashlib
import json
from typing import Any

import tomlkit
from tomlkit.items import Item

from hpfl.config.given import name_of
from hpfl.config.loading import resolve
from hpfl.config.whole import Config

UNDECIDING = frozenset(
    {"training.rounds", "training.checkpoint_every", "evaluation.target_accuracy", "evaluation.target_loss"}
)
"""Keys that do not decide a run's numbers: how long it runs, how often it saves, what it is timed to."""
_LATER = (
    ("planning", "staleness_price", "learned"),
    ("data", "signature", ""),
    ("learning", "charged_passes", "paper"),
)
"""Keys that came when runs and checkpoints were already there: at these values they change nothing of them."""


def to_toml(config: Config) -> str:
    """The whole configuration; reading it back gives the same. What "auto" comes to is said beside it."""
    document, resolved = tomlkit.document(), resolve(config)
    for section, info in Config.model_fields.items():
        model = getattr(config, section)
        table = tomlkit.table()
        table.comment(info.description or "")
        for name, field in type(model).model_fields.items():
            value, comes_to = getattr(model, name), getattr(getattr(resolved, section), name)
            here = f", here {comes_to:g}" if value == "auto" != comes_to else ""
            table.add(name, _item(name_of(value), _comment(field) + here))
        document.add(section, table)
    return tomlkit.dumps(document)


def fingerprint(config: Config) -> str:
    """A short name for everything that decides a run's numbers."""
    tree = resolve(config).model_dump()
    for section, name in (key.split(".") for key in UNDECIDING):
        tree[section].pop(name)
    for name in ("model", "loss"):
        tree["learning"][name] = name_of(tree["learning"][name])
    for section, name, default in _LATER:
        if tree[section][name] == default:
            tree[section].pop(name)
    text = json.dumps(tree, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _item(value: Any, comment: str) -> Item:
    plain = value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
    if isinstance(plain, dict):
        table = tomlkit.inline_table()
        table.update(plain)
        plain = table
    item: Item = tomlkit.item(plain)
    item.comment(comment)
    return item


def _comment(field: Any) -> str:
    unit = (field.json_schema_extra or {}).get("unit", "")
    return f"[{unit}] {field.description}" if unit else str(field.description)
