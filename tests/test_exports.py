"""What packages export for those who extend them: it is there, it is light, and the docs use nothing else."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpfl

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "scripts"))

from reference_pages.api import ROOMS  # noqa: E402  found by the line before


@pytest.mark.parametrize("name", ["hpfl", *ROOMS])
def test_everything_a_package_promises_is_there(name):
    package = importlib.import_module(name)
    assert len(package.__all__) == len(set(package.__all__))
    assert all(hasattr(package, each) for each in package.__all__)
    assert set(package.__all__) <= set(dir(package))


def test_every_room_that_promises_names_has_a_page_of_the_reference():
    openings = {f"hpfl.{path.parent.name}": path.read_text() for path in ROOT.glob("src/hpfl/*/__init__.py")}
    promising = {name for name, text in openings.items() if "__all__" in text}
    assert promising - set(ROOMS) == {"hpfl.config"}  # its names are those of `hpfl` itself
    assert promising >= set(ROOMS)


def test_a_name_that_the_package_does_not_know_is_refused():
    with pytest.raises(AttributeError, match="module 'hpfl' has no attribute 'plann'"):
        _ = hpfl.plann


def test_planning_does_not_import_pytorch():
    heavy = "{'torch', 'pydantic', 'hpfl.config', 'hpfl.learning'} & set(sys.modules)"
    code = f"import sys, hpfl, hpfl.planning, hpfl.network; hpfl.plan; hpfl.RoundProblem; print({heavy})"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.strip() == "set()"


def test_watchers_and_their_kind_are_known_without_pytorch():
    code = "import sys, hpfl.simulation, hpfl.reporting; from hpfl.training import WATCHERS, Watcher; "
    told = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"], check=True, capture_output=True
    )
    assert told.stdout.strip() == b"False"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_the_docs_import_from_these_packages_only_what_they_export(page):
    assert_imports_what_is_exported(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted((ROOT / "examples/plugin").rglob("*.py")), ids=lambda file: file.stem)
def test_the_example_of_a_package_imports_only_what_is_exported(file):
    text = file.read_text(encoding="utf-8")
    assert_imports_what_is_exported(text)
    assert set(re.findall(r"(?:from|import) (hpfl[\w.]*)", text)) <= {"hpfl", "hpfl.options", "hpfl.rng", *ROOMS}


def assert_imports_what_is_exported(text):
    rooms = "|".join(name.removeprefix("hpfl.") for name in ROOMS)
    assert not re.findall(rf"(?:from|import) hpfl\.(?:{rooms})\.\w+", text)
    for package, names in re.findall(rf"from (hpfl(?:\.(?:{rooms}))?) import ([\w, ]+)", text):
        assert set(names.replace(" ", "").split(",")) <= set(importlib.import_module(package).__all__)
