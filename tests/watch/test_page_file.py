"""An exported file shows a real run in every view, opened from a disk, with nothing fetched and nothing refused."""

import pytest
from page_browser import VIEWS, browser_or_skip, open_page
from watch_server import lines_of

from hpfl.watch.app import STATIC
from hpfl.watch.export import exported_page
from hpfl.watch.page_answers import FolderAnswers
from hpfl.watch.run_sources import Sources


@pytest.fixture(scope="module")
def page(run_folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("sent") / "page.html"
    target.write_bytes(exported_page(FolderAnswers(Sources.of([run_folder])), STATIC))
    with browser_or_skip() as browser:
        one = open_page(browser, f"{target.as_uri()}#round=4&ue=1")
        yield one
        assert one.complaints == []


def test_the_file_says_what_the_records_say(page, run_folder):
    said = lines_of(run_folder)[3]
    assert page.text_content("dd[data-fact=round]") == "4 / 6"
    assert page.text_content("dd[data-fact=personalised_accuracy]") == f"{100 * said['personalised_accuracy']:.1f} %"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_the_file_draws_or_says_why_not(page, view):
    page.click(f"#tabs a[data-view={view}]")
    page.wait_for_selector(f"main > [data-view={view}]:visible")
    page.wait_for_timeout(150)
    for panel in page.locator(f"main > [data-view={view}] section.panel:visible").all():
        empty = "empty" in panel.get_attribute("class")
        assert panel.locator("canvas:visible, table:visible").count() or (
            empty and panel.locator(".note").text_content()
        )
    if view == "spectrum":
        assert page.text_content("section[aria-label='Spectrum of the round'] .note").startswith("Round 4: ")
    if view == "gantt":
        assert page.text_content("section[aria-label='Timeline of edges'] .note") == "Rounds 2 to 6; round 4 is shaded."
