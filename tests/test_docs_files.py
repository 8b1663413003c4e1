"""Files that the documentation names are there, and the walks through a round count theirs right."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hpfl"
PAGES = sorted((ROOT / "docs").glob("*.md"))
MADE_UP = {"my.py", "mine.py", "train.py"}
"""Files of a reader's own."""
_NAMED = re.compile(r"[\w./*-]*\w\.(?:py|proto)\b")


def named_in(text):
    """Every `path.py` in the text, in its inline code, its tables and its blocks."""
    return [name.removeprefix("./") for name in _NAMED.findall(text)]


def is_there(name):
    """Whether the repository has such a file: by its path, by its path in the package, or anywhere in it by name."""
    if "/" in name:
        return any(any(base.glob(name)) for base in (ROOT, PACKAGE))
    return any(ROOT.glob(name)) or any(PACKAGE.rglob(name)) or any((ROOT / "examples").rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page):
    named = set(named_in(page.read_text(encoding="utf-8"))) - MADE_UP
    assert sorted(name for name in named if not is_there(name)) == []
