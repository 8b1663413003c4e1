"""The page that walks through the example package says what is so."""

import importlib
import re
import tomllib

import pytest
from plugin_runs import PACKAGE, places

from hpfl.config.kinds import kinds

PAGE = PACKAGE.parents[1] / "docs" / "extending.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {row.split("|")[1].strip(): row for row in TEXT.splitlines() if row.startswith("| ")}


@pytest.mark.parametrize("excerpt", re.findall(r"```(?:python|toml)\n(.*?)```", TEXT, flags=re.DOTALL))
def test_what_it_quotes_stands_in_the_package(excerpt):
    if excerpt.startswith("[planning]"):  # how a user names parts
        assert set(tomllib.loads(excerpt)) == {"planning", "evaluation"}
        return
    files = [*PACKAGE.glob("*.toml"), *(PACKAGE / "src").rglob("*.py")]
    assert any(excerpt in file.read_text(encoding="utf-8") for file in files)


def test_it_has_a_section_for_every_part_of_the_package():
    assert re.findall(r"^### An? .*: `(.*)`$", TEXT, flags=re.MULTILINE) == list(places())


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_its_table_has_every_kind_with_its_registry_its_keys_and_its_traits(kind):
    row = ROWS[kind.name]
    registry, package = re.findall(r"`(\w+)`, `(hpfl\.\w+)`", row)[0]
    assert getattr(importlib.import_module(package), registry) is kind.registry
    assert all(f"`{place}`" in row for place in kind.places)
    assert set(re.findall(r"`(\w+)`", row.split("|")[-2])) == set(kind.registry.traits)


def test_its_links_lead_to_files():
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (PAGE.parent / link).exists(), link
