"""The tables of docs/results.md and docs/reference/files.md: which columns are explained, section by section."""

import re
from pathlib import Path

_DOCS = Path(__file__).parents[1] / "docs"
_OTHERS = "reference/files.md"
"""The page of files that no run leaves by itself."""
_ONLY = {"simulated": "deployed runs only", "deployed": "simulated runs only"}
_SOMETIMES = ("`data.held_out_ues`", "attack", "section `privacy`", "methods that keep")
"""What rows of columns name that only some configurations bring."""


def explained(section, kind="simulated", page="results.md", sometimes=False):
    """Names in the first column of a section's table, but those that only the other kind of run has.

    Those that only some configurations bring are left out, or (`sometimes`) alone there.
    """
    text = re.split(r"^## ", (_DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    (body,) = [part for part in text if part.startswith(f"{section}\n")]
    rows = [line for line in body.splitlines() if line.startswith("| `") and _ONLY[kind] not in line]
    rows = [row for row in rows if any(word in row for word in _SOMETIMES) is sometimes]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(names) == len(set(names)), f"{section} explains a name twice"
    assert all(row.split("|")[3].strip() for row in rows), f"{section} has a name without a meaning"
    return set(names)


def explained_elsewhere(section):
    """Names that the page of other files explains."""
    return explained(section, page=_OTHERS)


def flat(row):
    """Keys of an object, those of objects inside with their names before them."""
    inside = {f"{key}.{name}" for key, value in row.items() if isinstance(value, dict) for name in value}
    return inside | {key for key, value in row.items() if not isinstance(value, dict)}
