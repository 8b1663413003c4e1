"""Files that the documentation names are there, and the walks through a round count theirs right."""

import re
import sys
from pathlib import Path

import pytest

from hpfl.config import load
from hpfl.experiment import Hooks, run_experiment
from hpfl.training.loop import play_round

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hpfl"
PAGES = sorted((ROOT / "docs").glob("*.md"))
MADE_UP = {"my_models.py"}
"""Files of a reader's own."""
NAMED = re.compile(r"[\w./*-]*\w\.(?:py|proto)\b")


def named_in(text):
    """Every `path.py` in the text, in its inline code, its tables, its blocks and its links."""
    return [name.removeprefix("../").removeprefix("hpfl/") for name in NAMED.findall(text)]


def is_there(name):
    """Whether the repository has such a file: by its path, or by the end of its path anywhere in its code."""
    return any(ROOT.glob(name)) or any(any((ROOT / part).rglob(name)) for part in ("src", "tests", "examples"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page):
    named = set(named_in(page.read_text(encoding="utf-8"))) - MADE_UP
    assert sorted(name for name in named if not is_there(name)) == []


@pytest.fixture(scope="module")
def architecture():
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(text, title):
    """What stands under a heading, up to the next."""
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_rooms_name_files_that_are_there(architecture):
    rooms = re.findall(r"^  (\w+)/ .*  +((?:\w+ )+(?:\w+|\.\.\.))$", section(architecture, "Rooms"), flags=re.MULTILINE)
    assert len(rooms) > 5
    absent = [f"{room}/{name}" for room, names in rooms for name in names.split() if name != "..."]
    assert [name for name in absent if not any(PACKAGE.glob(f"{name}*"))] == []


def test_the_types_are_in_the_files_that_are_named_for_them(architecture):
    told = section(architecture, "The types that pass between rooms")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \(`([\w/]+\.py)`", told, flags=re.MULTILINE)
    types = [(name, path) for names, path in rows for name in re.findall(r"\w+", names)]
    assert len(types) > 10
    absent = [(name, path) for name, path in types if f"class {name}" not in (PACKAGE / path).read_text("utf-8")]
    assert absent == []


def walked(folder):
    """The files that the second of three rounds opens, in this order."""
    found, rounds = {}, 0

    def called(frame, event, _argument):
        nonlocal rounds
        code = frame.f_code
        rounds += event == "call" and code is play_round.__code__
        if event == "call" and rounds == 2 and code.co_filename.startswith(str(PACKAGE)):
            found.setdefault(Path(code.co_filename).relative_to(PACKAGE).as_posix())

    small = ["network.edges=4", "network.ues_per_edge=3", "data.samples_per_ue=10", "training.rounds=3"]
    config = load("quickstart", overrides=[*small, "evaluation.every=1"])
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        run_experiment(config, out=folder, figures=False, device="cpu", hooks=Hooks())
    finally:
        sys.setprofile(before)
    return list(found)


def test_the_walk_of_a_simulated_round_is_the_one_that_is_taken(architecture, tmp_path):
    told = section(architecture, "One simulated round")
    rows = [row for row in told.splitlines() if row.startswith("| ")][1:]
    named = list(dict.fromkeys(name for row in rows for name in named_in(row)))
    opened = walked(tmp_path / "run")
    assert set(named) == set(opened)
    assert named == opened
    assert f"{len(opened)} files" in told
    assert sum(int(count) for count in re.findall(r"\((\d+)\) \|", told)) == len(opened)
