"""The docs are read in terminals and in diffs: lines of at most 120 columns, but for tables."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md")), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_the_docs_is_wider_than_120_columns_but_in_tables(page):
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    assert not [f"{number}: {line}" for number, line in lines if len(line) > 120 and not line.lstrip().startswith("|")]
