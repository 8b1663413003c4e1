"""Every link of the pages leads somewhere: files and headings are there, addresses elsewhere are well formed."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/plugin/README.md", "deploy/README.md")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OTHERS if (ROOT / name).exists())]
PAGES = [page for page in PAGES if "_build" not in page.parts]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\)")


def without_code(text):
    """The text without blocks and inline code, where brackets mean something else."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", text)


def links(page):
    return LINK.findall(without_code(page.read_text(encoding="utf-8")))


@cache
def anchors(page):
    """What headings are called in addresses, as GitHub and the site have it."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = []
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return set(found)


def fault(page, link):
    """What is wrong with a link; empty: nothing."""
    if re.match(r"[a-z]+:", link):
        parts = urlsplit(link)
        return "" if parts.scheme in ("https", "mailto") and (parts.netloc or parts.path) else "malformed"
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or ROOT not in (target, *target.parents):
        return "no such file"
    return "" if not anchor or target.suffix != ".md" or anchor in anchors(target) else "no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert {link: fault(page, link) for link in links(page) if fault(page, link)} == {}


def test_there_are_links_to_look_at_and_bad_ones_are_found():
    found = [link for page in PAGES for link in links(page)]
    assert len(found) > 300
    assert sum("#" in link for link in found) > 30
    page = ROOT / "docs" / "howto.md"
    assert fault(page, "nowhere.md") == "no such file"
    assert fault(page, "errata.md#nowhere") == "no such heading"
    assert fault(page, "http://example.com") == "malformed"


def test_every_page_is_in_the_tree_of_the_site():
    docs = ROOT / "docs"
    trees = {page: re.findall(r"```\{toctree\}(.*?)```", page.read_text("utf-8"), flags=re.DOTALL) for page in PAGES}
    named = {
        (page.parent / f"{name}.md").resolve()
        for page, blocks in trees.items()
        for block in blocks
        for name in re.findall(r"^([\w./-]+)$", block, flags=re.MULTILINE)
    }
    assert {page for page in PAGES if docs in page.parents} - named == {docs / "index.md"}


def test_every_picture_of_the_docs_is_in_the_gallery():
    gallery = ROOT / "docs" / "gallery.md"
    pictures = [*(ROOT / "docs/figures").glob("*.png"), *(ROOT / "docs/reproduction").glob("*/*.png")]
    shown = {Path(link).name for link in links(gallery) if link.endswith(".png")}
    assert {picture.name for picture in pictures} == shown
    commands = re.findall(r"`(?:hpfl|make|python) [^`]+`", gallery.read_text(encoding="utf-8"))
    assert len(set(commands)) >= len(shown) - 1  # one study draws two
