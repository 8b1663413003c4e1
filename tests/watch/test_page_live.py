"""A page that is open shows new rounds, stands still where somebody looks at an old one, and takes names for text."""

import json

import pytest
from page_browser import Shape, SyntheticRun, browser_or_skip, open_page
from watch_server import serving

from hpfl.reporting.folder import RUN_ID

pytest.importorskip("starlette")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser():
    with browser_or_skip() as one:
        yield one


def wait_for_place(page, text):
    page.wait_for_function("t => document.getElementById('place').textContent === t", arg=text)


def test_new_rounds_come_by_themselves_and_do_not_disturb_who_looks_back(browser, tmp_path):
    run = SyntheticRun(tmp_path / "goes-on", Shape(rounds=50, edges=4, ues_per_edge=3))
    run.play(3)
    with serving(run.folder) as asked:
        address = asked.address
        page = open_page(browser, address)
        page.wait_for_selector("#live:text-is('● live, following')")
        run.play(2)
        wait_for_place(page, "5 / 5")
        page.keyboard.press("ArrowLeft")
        wait_for_place(page, "4 / 5")
        run.play(1)
        wait_for_place(page, "4 / 6")
        page.click("#newest")
        run.play(1)
        wait_for_place(page, "7 / 7")
        page.click("#tabs a[data-view=gantt]")
        run.play(1)
        page.wait_for_selector(
            "section[aria-label='Timeline of edges'] .note:text-is('Rounds 4 to 8; round 8 is shaded.')"
        )
        assert page.complaints == []
        page.close()


def test_names_are_text(browser, tmp_path):
    runs = [
        SyntheticRun(tmp_path / f"{HOSTILE}{seed}".replace("/", "_"), Shape(rounds=3, edges=2, seed=seed))
        for seed in (0, 1)
    ]
    for run in runs:
        run.play(3)
        run.end()
    board = {
        "round": 3,
        "rounds": 3,
        "nodes": [{"node": "<b>edge</b>", "state": HOSTILE, "planned_s": 1.0, "measured_s": 2.0}],
    }
    (runs[0].folder / RUN_ID).write_text("0" * 32, encoding="utf-8")
    (runs[0].folder / "status.json").write_text(json.dumps(board), encoding="utf-8")
    with serving(*(run.folder for run in runs)) as asked:
        address = asked.address
        page = open_page(browser, address)
        assert HOSTILE in page.text_content("#head select")
        assert HOSTILE in page.text_content("#runs")
        page.locator("select[aria-label=Over]").select_option("round")
        page.click("#tabs a[data-view=nodes]")
        page.wait_for_selector("td:visible:text-is('<b>edge</b>')")
        assert page.locator("img").count() == 0
        assert page.complaints == []
        page.close()


def test_seeds_of_a_group_are_one_line_with_a_band(browser, tmp_path):
    for seed in (1, 2, 3):
        run = SyntheticRun(tmp_path / f"same-seed{seed}", Shape(rounds=6, edges=2, seed=seed))
        run.play(6)
        run.end()
    with serving(tmp_path) as asked:
        address = asked.address
        page = open_page(browser, f"{address}#band=interval")
        assert page.locator("#runs label").count() == 1
        page.wait_for_selector("section[aria-label='Loss'] .note:has-text('95 % interval of the mean')")
        assert page.locator("#runs label").text_content().endswith("3 seeds")
        page.close()
