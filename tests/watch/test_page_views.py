"""The page shows what the files say, in every view, live and replayed, and goes where it is told."""

import json

import pytest
from page_browser import VIEWS, Shape, SyntheticRun, browser_or_skip, open_page
from watch_server import serving

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def browser():
    with browser_or_skip() as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that is over."""
    run = SyntheticRun(tmp_path_factory.mktemp("runs") / "over", Shape(rounds=12, edges=6, ues_per_edge=4))
    run.play(12)
    run.end()
    return run.folder


@pytest.fixture(scope="module")
def address(browser, folder):
    with serving(folder) as asked:
        yield asked.address


@pytest.fixture(scope="module")
def page(browser, address):
    one = open_page(browser, address)
    yield one
    assert one.complaints == []
    one.close()


def records(folder):
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()]


def fact(page, name):
    return page.text_content(f"dd[data-fact={name}]")


def at(page, address, fragment):
    """Follows a link with a fragment."""
    page.goto(address + (fragment or "#"))
    page.wait_for_timeout(50)


def table(page, title):
    """The rows of the table behind a chart, opened where it is closed."""
    panel = page.locator(f"section[aria-label='{title}']:visible")
    panel.locator("details").evaluate("node => { node.open = true; }")
    panel.locator("table[aria-busy=false] tbody tr").first.wait_for()
    return panel.locator("tr").evaluate_all("rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))")


@pytest.mark.parametrize("number", [1, 7, 12])
def test_facts_of_a_round_are_those_of_its_record(page, address, folder, number):
    at(page, address, f"#round={number}")
    said = records(folder)[number - 1]
    page.wait_for_function(
        "t => document.querySelector('dd[data-fact=energy_j]').textContent === t", arg=watts(said["energy_j"])
    )
    assert fact(page, "round") == f"{number} / 12"
    assert fact(page, "personalised_accuracy") == f"{100 * said['personalised_accuracy']:.1f} %"
    assert fact(page, "num_scheduled") == str(said["num_scheduled"])


def watts(joules):
    """Joules as the page writes them: four digits, and a prefix."""
    value, unit = (joules, "J") if joules >= 1 else (1000 * joules, "mJ")
    return f"{float(f'{value:.4g}'):g} {unit}"


def test_the_table_behind_the_curve_has_the_accuracies_of_the_records(page, address, folder):
    at(page, address, "#x=round")
    rows = table(page, "Accuracy, mean over UEs")[1:]
    assert [int(row[1]) for row in rows] == list(range(1, 13))
    assert [float(row[2]) for row in rows] == pytest.approx([one["personalised_accuracy"] for one in records(folder)])


def test_the_spectrum_has_every_link_that_was_given_hz(page, address, folder):
    at(page, address, "#view=spectrum&round=5")
    said = json.loads((folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()[4])
    page.wait_for_selector("section[aria-label='Spectrum of the round'] .note:has-text('Round 5:')")
    rows = table(page, "Spectrum of the round")[1:]
    access = {int(row[3]): float(row[4]) for row in rows if row[1] == "access"}
    assert access == pytest.approx(dict(zip(said["sent"]["ue"], said["sent"]["hz"], strict=True)), rel=1e-5)
    last = max(said["sent"]["end_s"])
    limits = {ue for ue, end in zip(said["sent"]["ue"], said["sent"]["end_s"], strict=True) if end == last}
    assert limits <= {int(row[3]) for row in rows if row[1] == "access" and row[7] == "yes"}


def test_the_timeline_has_what_each_edge_did(page, address, folder):
    at(page, address, "#view=gantt&round=5&window=1")
    lines = (folder / "timeline.jsonl").read_text(encoding="utf-8").splitlines()
    said = sorted((one["edge"], one["phase"]) for one in map(json.loads, lines) if one["round"] == 5)
    assert sorted((int(row[1]), row[2]) for row in table(page, "Timeline of edges")[1:]) == said


def test_the_map_has_the_places_of_the_scene(page, address, folder):
    at(page, address, "#view=map&round=3")
    said = json.loads((folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()[2])
    page.wait_for_selector("section[aria-label='Map'] .note:has-text('Round 3:')")
    rows = table(page, "Map")[1:]
    assert [float(row[3]) for row in rows if row[0] == "edge"] == said["edge_places"]["x_m"]
    assert [float(row[4]) for row in rows if row[0] == "UE"] == said["ue_places"]["y_m"]


def test_heat_maps_have_the_staleness_of_the_round(page, address, folder):
    at(page, address, "#view=edges&round=9")
    said = json.loads((folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()[8])
    assert [int(row[2]) for row in table(page, "Staleness of edges (rounds)")[1:]] == said["edges"]["staleness"]


def test_reasons_are_those_of_the_record(page, address, folder):
    at(page, address, "#view=reasons&round=4")
    page.wait_for_selector("section[aria-label='The plan of this round'] .note:has-text('Round 4,')")
    rows = {row[0]: row[1] for row in table(page, "The plan of this round")[1:]}
    said = records(folder)[3]
    assert float(rows["objective"]) == pytest.approx(said["objective"], rel=1e-3)
    assert rows["relative gap"] == f"{100 * said['relative_gap']:.1f} %"


def test_the_debt_is_drawn_over_rounds(page, address, folder):
    at(page, address, "#view=reasons&round=4")
    said = [json.loads(line)["plan"]["debt"] for line in (folder / "scenes.jsonl").read_text("utf-8").splitlines()]
    rows = table(page, "Debt")[1:]
    assert [int(row[0]) for row in rows] == list(range(1, 13))
    assert [float(row[1]) for row in rows] == pytest.approx(said, rel=1e-5)
    assert page.text_content("section[aria-label='Debt'] .note") == f"debt now {float(f'{said[3]:.4g}'):g}"


def test_of_a_thousand_edges_every_round_of_the_window_is_there(browser, tmp_path):
    run = SyntheticRun(tmp_path / "wide", Shape(rounds=6, edges=1_000, ues_per_edge=3))
    run.play(6)
    with serving(run.folder) as asked:
        page = open_page(browser, f"{asked.address}#view=gantt&round=5&window=3")
        page.wait_for_selector(
            "section[aria-label='Timeline of edges'] .note:text-is('Rounds 4 to 6; round 5 is shaded.')"
        )
        rows = page.evaluate("() => document.querySelector('[aria-label=\"Timeline of edges\"] canvas').height")
        assert rows > 0
        page.click("#tabs a[data-view=ues]")
        page.wait_for_selector("section[aria-label='UEs in this round'] .note:has-text('UEs that were called')")
        page.wait_for_selector("section[aria-label='Picked UE']", state="hidden")
        page.close()


def test_a_ue_can_be_picked_by_its_number(page, address, folder):
    at(page, address, "#view=ues")
    page.get_by_label("Pick UE").fill("17")
    page.keyboard.press("Tab")
    page.wait_for_selector("section[aria-label='Picked UE'] .note:text-is('UE 17')")
    line = (folder / "ues.csv").read_text(encoding="utf-8").splitlines()[18].split(",")
    cells = page.locator("section[aria-label='Picked UE'] td").all_text_contents()
    assert dict(zip(cells[::2], cells[1::2], strict=True))["personalised_accuracy"] == str(float(line[4]))
    assert "ue=17" in page.evaluate("new Promise((done) => setTimeout(() => done(location.hash), 400))")


def test_keys_go_through_rounds_and_views(page, address):
    at(page, address, "")
    for key, where in (("Home", 1), ("ArrowRight", 2), ("Shift+ArrowRight", 12), ("ArrowLeft", 11), ("End", 12)):
        page.keyboard.press(key)
        page.wait_for_function("t => document.getElementById('place').textContent === t", arg=f"{where} / 12")
    for number, view in enumerate(VIEWS, start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"main > [data-view={view}]:visible")
    page.go_back()
    page.wait_for_selector("main > [data-view=ues]:visible")


def test_playing_goes_on_from_the_first_round(page, address):
    at(page, address, "")
    page.keyboard.press("Space")
    page.wait_for_selector("#play[aria-label=Pause]")
    page.wait_for_function("() => document.getElementById('round').valueAsNumber > 2")
    page.keyboard.press("Space")
    page.wait_for_selector("#play[aria-label=Play]")


def test_the_address_restores_what_was_seen(browser, address):
    page = open_page(browser, f"{address}#view=gantt&round=7&window=3&theme=dark")
    page.wait_for_selector("section[aria-label='Timeline of edges'] .note:text-is('Rounds 6 to 8; round 7 is shaded.')")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.click("#back")
    page.click("#tabs a[data-view=map]")
    page.wait_for_selector("section[aria-label='Map'] .note:has-text('Round 6:')")
    colleague = open_page(browser, page.url)
    colleague.wait_for_selector("section[aria-label='Map'] .note:has-text('Round 6:')")
    assert fact(colleague, "round") == "6 / 12"
    assert page.complaints == colleague.complaints == []
    page.close()
    colleague.close()


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 390), ("dark", 1280)])
def test_no_view_is_wider_than_the_window(page, address, theme, width):
    page.set_viewport_size({"width": width, "height": 844})
    at(page, address, f"#theme={theme}")
    for view in VIEWS:
        page.click(f"#tabs a[data-view={view}]")
        page.wait_for_selector(f"main > [data-view={view}]:visible")
        page.wait_for_timeout(40)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.set_viewport_size({"width": 1280, "height": 900})


def test_charts_are_saved_as_svg_and_csv(page, address, folder):
    for view, title in (("curves", "Loss"), ("spectrum", "Spectrum of the round"), ("edges", "Importance of edges")):
        at(page, address, f"#view={view}&round=6")
        table(page, title)
        with page.expect_download() as saved:
            page.click(f"button[aria-label='{title} as an SVG file']")
        assert saved.value.path().read_text(encoding="utf-8").count("<") > 20
        with page.expect_download() as saved:
            page.click(f"button[aria-label='{title} as a CSV file']")
        assert len(saved.value.path().read_text(encoding="utf-8").splitlines()) > 2
