"""A browser for tests of the page: real Chromium, and folders of results as runs write them."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from watch_folders import Shape, SyntheticRun

VIEWS = ("curves", "spectrum", "gantt", "map", "edges", "reasons", "ues", "nodes")
PATIENCE_MS = 30_000

__all__ = ["PATIENCE_MS", "VIEWS", "Shape", "SyntheticRun", "browser_or_skip", "open_page"]


@contextmanager
def browser_or_skip():
    """Chromium without a window; skipped where there is none, unless HPFL_NEED_BROWSER=1."""
    needed = os.environ.get("HPFL_NEED_BROWSER") == "1"
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path, sync_playwright = None, None
    if path is None or sync_playwright is None:
        reason = "tests of the page need Chromium and Playwright"
        pytest.fail(reason) if needed else pytest.skip(reason)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser, address, *, width=1280, wait=True, **more):
    """A page whose complaints are kept in `page.complaints`: errors, refusals of its policy, requests to elsewhere."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **more)
    page.set_default_timeout(PATIENCE_MS)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda said: page.complaints.append(said.text) if said.type in {"error", "warning"} else None)
    home = address.split("#")[0].split("?")[0]
    page.on(
        "request", lambda one: None if one.url.startswith((home, "data:", "blob:")) else page.complaints.append(one.url)
    )
    page.goto(address)
    if wait:
        page.wait_for_selector("dd[data-fact=round]:not(:text-is('–'))")
    return page
