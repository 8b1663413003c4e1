"""The site is built without a warning, and a browser that opens it needs nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]+)\"")
OF_STYLES = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")


def outside(folder):
    """What pages and styles of a folder would load from elsewhere; links to follow are no such thing."""
    files = [path for path in folder.rglob("*") if path.suffix in (".html", ".css")]
    found = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        loaded = [*LOADED.findall(text), *OF_STYLES.findall(text)]
        if loaded:
            found[path.relative_to(folder).as_posix()] = loaded
    return found


def test_what_would_be_loaded_from_elsewhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<script src="https://cdn.example/x.js"></script><a href="https://example.com">')
    (tmp_path / "b.css").write_text("@import url(//fonts.example/y.css);")
    assert outside(tmp_path) == {"a.html": ["https://cdn.example/x.js"], "b.css": ["//fonts.example/y.css"]}


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    making = ["-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    done = subprocess.run(
        [sys.executable, *making, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if "_build" not in page.parts and not (tmp_path / "site" / page).exists()} == set()
    assert outside(tmp_path / "site") == {}
    notebooks = {
        path.stem: tmp_path / "site/notebooks" / f"{path.stem}.html" for path in ROOT.glob("docs/notebooks/*.ipynb")
    }
    assert len(notebooks) == 5
    assert all('class="cell-output"' in page.read_text(encoding="utf-8") for page in notebooks.values())
    assert "hpfl.RoundProblem" in (tmp_path / "site/reference/api/hpfl.html").read_text(encoding="utf-8")
    assert (tmp_path / "site/reproduction/index.html").exists()
