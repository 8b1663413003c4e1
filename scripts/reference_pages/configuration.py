"""The page of every configuration key, and that of the files of a deployment's nodes."""

from collections.abc import Iterator
from typing import Any

from hpfl.config.fields import Section
from hpfl.config.named import Names, NamesSeveral, rows_of, slots_of
from hpfl.config.old_keys import OLD_KEYS
from hpfl.config.whole import Config
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, NodeSettings, UeNodeSettings
from reference_pages.fields import row
from reference_pages.markdown import MADE, code, table
from reference_pages.readers import read_by

_HEADS = ("key", "default", "may be", "unit", "meaning")

_INTRO = f"""\
# Configuration keys

{MADE}
Every key of an experiment, with its default, what it may be, its unit, its meaning and who reads it. A file needs only
the keys it changes; `hpfl show PRESET` prints all of them with a preset's values, and `--set section.key=value` changes
one. A key that nobody reads in a run is named at its start ("changes nothing"). Keys that name a part have a table of
its options beside them, `planner_options` beside `planner`; [methods.md](../methods.md) has all parts and their
options. What is read by simulated runs alone is refused or without meaning in a [deployment](../deploy.md); the files
of its nodes have [keys of their own](node-files.md).

## Distributions

| written | means |
|---|---|
| `2e9` | all alike |
| `[1e9, 2e9]` | uniform between the two |
| `{{ choice = [1e9, 2e9], shares = [0.3, 0.7] }}` | classes; without `shares` all alike |
| `{{ lognormal = [2e9, 0.5] }}` | log-normal: median, and sigma in nepers |

"""

_OLD = "## Old names\n\nThese still work everywhere; an old and a new name that disagree are refused.\n\n"

_NODES = f"""\
# Keys of nodes' files

{MADE}
What `hpfl cloud FILE`, `hpfl edge FILE` and `hpfl ue FILE` read, with defaults and units. `hpfl deploy local` writes
such files; [deploy.md](../deploy.md) shows them at work. Relative paths start at the file's folder.

"""


def configuration_page() -> str:
    """`docs/reference/configuration.md`."""
    sections = "".join(_section(name, info) for name, info in Config.model_fields.items())
    old = table(("old", "now"), [(code(one.old), code(one.new)) for one in OLD_KEYS])
    return f"{_INTRO}{sections}{_OLD}{old}"


def _section(name: str, info: Any) -> str:
    said, model = str(info.description), info.annotation
    named = {**slots_of(model), **rows_of(model)}
    rows = [_row(f"{name}.{key}", field, named.get(key)) for key, field in model.model_fields.items()]
    return f"## {name}\n\n{said[0].upper()}{said[1:]}.\n\n{table((*_HEADS, 'read by'), rows)}\n"


def _row(place: str, field: Any, names: Names | NamesSeveral | None) -> list[str]:
    """A key's row; one that names parts leads to them."""
    key, default, allowed, unit, meaning = row(place.partition(".")[2], field)
    if names is not None:
        several = "list of " if isinstance(names, NamesSeveral) else ""
        word = names.registry.plural if several else f"a {names.registry.kind}"
        allowed = f"{several}[{word}](../methods.md#{_anchor(names)})"
    return [key, default, allowed, unit, meaning, read_by(place)]


def _anchor(slot: Any) -> str:
    return slot.registry.plural.replace(" ", "-")


def node_page() -> str:
    """`docs/reference/node-files.md`."""
    return _NODES + "".join(_node_tables()).rstrip("\n") + "\n"


def _node_tables() -> Iterator[str]:
    own = {"Cloud": CloudNodeSettings, "Edge": EdgeNodeSettings, "UE": UeNodeSettings}
    within = {name for name, field in NodeSettings.model_fields.items() if _is_section(field)}
    common = [row(name, field) for name, field in NodeSettings.model_fields.items() if name not in within]
    yield f"## Every node\n\n{table(_HEADS, common)}\n"
    for name in sorted(within, key=list(NodeSettings.model_fields).index):
        model = NodeSettings.model_fields[name].annotation
        rows = [row(f"{name}.{key}", field) for key, field in model.model_fields.items()]
        yield f"## {name}\n\n{model.__doc__}\n\n{table(_HEADS, rows)}\n"
    for title, model in own.items():
        rows = [row(key, field) for key, field in model.model_fields.items() if _is_own(model, key)]
        yield f"## {title}\n\n{table(_HEADS, rows)}\n"


def _is_own(model: type[Section], key: str) -> bool:
    """Whether a node has a key that not every node has, or has it with another default."""
    return (
        key not in NodeSettings.model_fields
        or model.model_fields[key].default != NodeSettings.model_fields[key].default
    )


def _is_section(field: Any) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)
