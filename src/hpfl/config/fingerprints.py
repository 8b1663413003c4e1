"""What an experiment is called by everything that decides its numbers, the same through all versions of the keys."""

import hashlib
import json
from typing import Any

from hpfl.config.fields import said_of
from hpfl.config.given import name_of
from hpfl.config.named import OPTIONS, slots_of
from hpfl.config.old_keys import RenewedSection, old_keys
from hpfl.config.resolved import Experiment, resolve
from hpfl.config.whole import Config

UNDECIDING = frozenset(
    f"{section}.{name}"
    for section, info in Config.model_fields.items()
    for name, field in info.annotation.model_fields.items()  # type: ignore[union-attr]
    if not said_of(field, "decides")
)
"""Keys that do not decide a run's numbers: how long it runs, how often it saves, what it is timed to, who watches."""


def fingerprint(config: Config | Experiment) -> str:
    """A short name for everything that decides a run's numbers."""
    return resolve(config).fingerprint


def digest(experiment: Experiment) -> str:
    """The fingerprint, from the keys as they were called when fingerprints began."""
    tree = {section: _counted(getattr(experiment, section)) for section in Config.model_fields}
    told = {section: keys for section, keys in tree.items() if keys}  # one that came later is not there while empty
    text = json.dumps(told, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _counted(section: RenewedSection) -> dict[str, Any]:
    """A section's deciding values; keys that came later count where they are other than by default."""
    tree, slots = section.model_dump(), slots_of(type(section))
    tree |= {name + OPTIONS: section.told(name) for name in slots}
    for name, field in type(section).model_fields.items():
        tree[name] = name_of(tree[name])
        later = said_of(field, "since") > 1 and tree[name] == field.default
        if later or not said_of(field, "decides"):
            tree.pop(name)
    return _by_old_names(section, tree)


def _by_old_names(section: RenewedSection, tree: dict[str, Any]) -> dict[str, Any]:
    """The same tree with every key that is called otherwise now under the name it had."""
    for old in old_keys(section.section):
        if not old.part:
            tree.pop(old.key, None)
        elif getattr(section, old.key) == old.part:
            options = tree.pop(old.key + OPTIONS, {})
            kept = {name: value for name, value in options.items() if name != old.option}
            tree |= {old.key + OPTIONS: kept} if kept else {}
        value = getattr(section, old.name)
        if not old.later or value != old.default:
            tree[old.name] = value
    return tree
