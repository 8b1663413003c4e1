"""Every registry of the package has a law that its parts are held to, and every part says what it is."""

import importlib
import re
from pathlib import Path

import pytest

import hpfl
from hpfl.config.kinds import kinds

HERE = Path(__file__).parent


def registries():
    """All registries by the name of the variable they are made as, wherever in the package that is."""
    found, root = {}, Path(hpfl.__file__).parent
    for path in root.rglob("*.py"):
        for name in re.findall(r"^(\w+)[^=\n]*= Registry\(", path.read_text(), flags=re.MULTILINE):
            module = ".".join(["hpfl", *path.relative_to(root).with_suffix("").parts])
            found[name] = getattr(importlib.import_module(module), name)
    return found


ALL = registries()


def test_every_registry_is_walked_by_a_contract():
    texts = [path.read_text() for path in HERE.glob("test_*_contract.py")]
    assert len(ALL) >= 15
    assert [name for name in ALL if not any(f"{name}.names()" in text for text in texts)] == []


def test_every_registry_is_listed_by_hpfl_parts():
    assert {id(kind.registry) for kind in kinds()} == {id(registry) for registry in ALL.values()}


@pytest.mark.parametrize("name", ALL)
def test_every_part_says_what_it_is_and_has_options_that_explain_themselves(name):
    for part in map(ALL[name].part, ALL[name].names()):
        assert part.meaning, part.title
        assert part.origin == "hpfl"
        if part.options is not None:
            assert part.read({}) == part.options()
            for option, field in part.options.model_fields.items():
                assert field.description, f"{part.title}.{option}"
