"""How the configuration beside a run's results shows that it has been changed: its first line has its digest."""

import hashlib
import re
from pathlib import Path

from hpfl.reporting.store import OutputError

_FIRST = re.compile(rb"# blake2b ([0-9a-f]{32})\n")


def with_digest(text: str) -> str:
    """A configuration's text below the digest of it."""
    return f"# blake2b {_digest(text.encode())}\n{text}"


def refuse_changed(path: Path) -> None:
    """Raise where a file that a run wrote is missing or is not as it was written; earlier versions wrote no digest."""
    if not path.is_file():
        raise OutputError(
            f"{path} is missing; name the preset or file that the run was begun with, and --out {path.parent}"
        )
    content = path.read_bytes()
    first = _FIRST.match(content)
    is_same = _digest(content[first.end() :]) == first[1].decode() if first else b"\n" in content
    if not is_same:
        raise OutputError(
            f"{path} is not as it was written; give changes with --set, put it back from a copy, or, if it is right as "
            "it is, take out its first line"
        )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
