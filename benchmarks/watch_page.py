"""How fast the page of `hpfl watch` is in a real Chromium, and how much it keeps.

`python benchmarks/watch_page.py`: the server in a process of its own, folders in the formats that runs write. First
charts are timed from the click to the first picture, the server having just begun. Scripts of a frame are what the
renderer's trace says that ran between two frames, in CPU time. A new round is timed
from its line in the file to its number on screen.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from watch_folders import Shape, SyntheticRun

FIRST_S, FRAME_MS, FRAMES_PER_S, NEW_MS, HEAP = 1.0, 16.0, 30.0, 500.0, 1.2
SCRUBBED = Shape(rounds=1_000, edges=200, ues_per_edge=2)
SCRUBBED_VIEWS = ("curves", "spectrum", "gantt", "map", "edges", "reasons")
SCRIPTS = {"FunctionCall", "EvaluateScript", "RunMicrotasks", "FireAnimationFrame", "EventDispatch", "TimerFire"}
READY = """() => {
  const look = () => {
    const said = document.querySelector("dd[data-fact=round]")?.textContent ?? "–";
    const there = document.querySelector("main canvas") && !said.startsWith("–");
    if (there && !window.firstCharts) window.firstCharts = performance.now();
    if (!there) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
SEEN = """() => {
  window.seen = {};
  const place = document.getElementById("place");
  new MutationObserver(() => requestAnimationFrame(() => { window.seen[parseInt(place.textContent)] = Date.now(); }))
    .observe(place, { childList: true, characterData: true, subtree: true });
}"""
SCRUB = """([frames, how]) => new Promise((done) => {
  const slider = document.getElementById("round");
  const began = performance.now();
  const last = Number(slider.max);
  let pictures = 0;
  const notes = new MutationObserver(() => pictures++);
  notes.observe(document.getElementById("view"), { childList: true, characterData: true, subtree: true });
  const places = {
    "by a round": (at) => last / 2 + (at % 80 < 40 ? at % 80 : 80 - (at % 80)),
    "by jumps": (at) => 1 + ((at * 397) % last),
    "to and fro": (at) => (last / 2) * (1 + Math.sin(at / 6)),
  };
  let left = frames;
  const step = () => {
    slider.value = places[how](left);
    slider.dispatchEvent(new Event("input"));
    if (--left) requestAnimationFrame(step);
    else {
      notes.disconnect();
      const perSecond = (count) => 1000 * count / (performance.now() - began);
      done({ frames_per_s: perSecond(frames), changes_per_s: perSecond(pictures) });
    }
  };
  requestAnimationFrame(step);
})"""


@contextmanager
def served(*folders: Path) -> Iterator[str]:
    """The page's address while `hpfl watch` runs."""
    program = "from hpfl.cli import main; main()"
    command = [sys.executable, "-c", program, "watch", *map(str, folders), "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield next(word for word in line.split() if word.startswith("http"))
    finally:
        process.terminate()
        process.wait(timeout=30)


def opened(browser: Browser, address: str) -> Page:
    """A page with its first charts."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(f"({READY})()")
    page.goto(address)
    page.wait_for_function("() => window.firstCharts")
    return page


def first_charts(browser: Browser, folder: Path) -> dict[str, float]:
    """Seconds from the navigation to the first charts: of a server that just began, and of later ones."""
    with served(folder) as address:
        times = []
        for _ in range(5):
            page = opened(browser, address)
            times.append(page.evaluate("() => window.firstCharts") / 1e3)
            page.close()
    return {"value": times[0], "median_later_s": float(np.median(times[1:]))}


def scripts_of_frames(trace: bytes) -> list[float]:
    """Milliseconds of script between one frame and the next, from a trace."""
    events = [one for one in json.loads(trace)["traceEvents"] if one.get("name") in SCRIPTS and one.get("ph") == "X"]
    threads = [(one["pid"], one["tid"]) for one in events if one["name"] == "FireAnimationFrame"]
    main = max(set(threads), key=threads.count)
    spans = sorted(
        (one["ts"], one["ts"] + one.get("dur", 0), one.get("tdur", one.get("dur", 0)))
        for one in events
        if (one["pid"], one["tid"]) == main
    )
    starts = sorted(
        {one["ts"] for one in events if one["name"] == "FireAnimationFrame" and (one["pid"], one["tid"]) == main}
    )
    busy, reached = np.zeros(len(starts)), 0.0
    for start, end, cpu in spans:  # what is nested in another is counted with it
        frame = int(np.searchsorted(starts, start, side="right")) - 1
        if frame >= 0 and start >= reached:
            busy[frame] += cpu / 1e3
        reached = max(reached, end)
    merged = [float(group.sum()) for group in np.split(busy, np.flatnonzero(np.diff(starts) > 4e3) + 1)]
    return merged[1:-1]


def scrubbing(browser: Browser, address: str, view: str, how: str) -> dict[str, float]:
    """Scripts of a frame (CPU) and frames a second while the slider moves in every frame.

    By a round it goes back and forth over rounds that were seen; by jumps it goes hundreds of rounds away, and to and
    fro it swings over all of the run, dozens of rounds a frame: mostly over rounds that were never seen.
    """
    page = opened(browser, f"{address}#view={view}&round=500")
    page.wait_for_timeout(1500)
    page.evaluate(SCRUB, [80, how])
    browser.start_tracing(page=page, categories=["devtools.timeline"])
    rates = page.evaluate(SCRUB, [200, how])
    frames = scripts_of_frames(browser.stop_tracing())
    page.close()
    return {"value": float(np.percentile(frames, 95)), "median_ms": float(np.median(frames)), **rates}


def new_rounds(browser: Browser, run: SyntheticRun, address: str) -> list[float]:
    """Milliseconds from a round's line in the file to its number on screen."""
    page = opened(browser, address)
    page.wait_for_selector("#live:has-text('following')")
    page.evaluate(SEEN)
    written = {}
    for _ in range(20):
        page.wait_for_timeout(173)
        run.play(1)
        written[run.played] = time.time() * 1e3
    page.wait_for_function("last => window.seen[last]", arg=run.played)
    seen = page.evaluate("() => window.seen")
    page.close()
    return [seen[str(number)] - at for number, at in written.items() if str(number) in seen]


def heap_of(page: Page) -> float:
    """Megabytes the page holds, after every view was seen and what is no longer needed was thrown away."""
    for view in ("curves", "spectrum", "gantt", "map", "edges", "reasons", "ues", "nodes"):
        page.click(f"#tabs a[data-view={view}]")
        page.wait_for_timeout(700)
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(40)
        page.keyboard.press("End")
    page.wait_for_timeout(500)
    session = page.context.new_cdp_session(page)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def heap_growth(browser: Browser, folder: Path, *, few: int, many: int) -> dict[str, float]:
    """The heap after many rounds, watched live as they come, over that after few."""
    run = SyntheticRun(folder, Shape(rounds=2 * many))
    run.play(few)
    with served(folder) as address:
        page = opened(browser, address)
        page.wait_for_selector("#live:has-text('following')")
        before = heap_of(page)
        while run.played < many:
            run.play(min(150 if run.played < 2 * few else 4_000, many - run.played))
            page.wait_for_timeout(120)
        page.wait_for_function(
            "t => document.getElementById('place').textContent === t", arg=f"{many} / {many}", timeout=120_000
        )
        after = heap_of(page)
        page.close()
    return {"value": after / before, "before_mb": before, "after_mb": after}


def first_rows(browser: Browser, home: Path, _quick: bool) -> Iterator[dict[str, Any]]:
    """The first charts of long and of large runs."""
    for name, shape in (
        ("10,000 rounds", Shape(rounds=10_000)),
        ("massive", Shape(rounds=20, edges=1_000, ues_per_edge=1_000)),
    ):
        run = SyntheticRun(home / name, shape)
        run.play(shape.rounds, whole=name == "massive")
        run.end()
        yield bar(f"first charts, {name}", "s", FIRST_S, **first_charts(browser, run.folder))


def scrub_rows(browser: Browser, home: Path, _quick: bool) -> Iterator[dict[str, Any]]:
    """Going through rounds, in every view that follows the round at hand."""
    run = SyntheticRun(home / "scrubbed", SCRUBBED)
    run.play(SCRUBBED.rounds)
    run.end()
    with served(run.folder) as address:
        for view, how in product(SCRUBBED_VIEWS, ("by a round", "by jumps", "to and fro")):
            found = scrubbing(browser, address, view, how)
            yield bar(f"scripts of a frame while scrubbing {how}, {view}, 95th percentile", "ms", FRAME_MS, **found)
            slow = FRAMES_PER_S / found["frames_per_s"]
            yield bar(f"30 frames a second over those while scrubbing {how}, {view}", "x", 1.0, value=slow)


def live_rows(browser: Browser, home: Path, _quick: bool) -> Iterator[dict[str, Any]]:
    """How soon a new round is on screen."""
    run = SyntheticRun(home / "live", Shape(rounds=1_000))
    run.play(100)
    with served(run.folder) as address:
        late = new_rounds(browser, run, address)
    times = {"value": float(np.percentile(late, 95)), "median_ms": float(np.median(late))}
    yield bar("a new round on screen, 95th percentile", "ms", NEW_MS, **times)


def heap_rows(browser: Browser, home: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """What the page keeps of a run that grows."""
    few, many = (1_000, 10_000) if quick else (10_000, 100_000)
    found = heap_growth(browser, home / "grows", few=few, many=many)
    yield bar(f"heap after {many:,} rounds over that after {few:,}", "x", HEAP, **found)


PARTS = {"first": first_rows, "scrubbing": scrub_rows, "live": live_rows, "heap": heap_rows}


def bar(work: str, unit: str, most: float, *, value: float, **more: float) -> dict[str, Any]:
    """A row that says whether a value is within its bar."""
    return {"work": work, "value": value, "unit": unit, "bar": most, "ok": value <= most, **more}


def main() -> None:
    """A table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds for the heap")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part of it; may be repeated")
    options = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        sys.exit("no chromium was found on PATH; install Debian's chromium")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for row in (row for name in options.only or PARTS for row in PARTS[name](browser, Path(home), options.quick)):
            how = "ok" if row["ok"] else "MISSED"
            said = f"{row['work']:70} {row['value']:9.3f} {row['unit']:3} bar {row['bar']:g} {how}"
            print(json.dumps(row) if options.json else said, flush=True)
        browser.close()


if __name__ == "__main__":
    main()
