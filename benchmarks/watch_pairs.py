"""Whether watching slows a run: pairs of runs with and without a page that is open in a real Chromium.

python benchmarks/watch_pairs.py                 a table with the bar beside each figure
python benchmarks/watch_pairs.py --json          one JSON object per row: work, value, unit, bar, ok
python benchmarks/watch_pairs.py --pairs 4       fewer pairs; the bar is of ten

A run has one core to itself (`--core`), the page's server and its browser have the others. Which of a pair comes first
alternates. CPU seconds are user and system time of the run's process alone; wall seconds are from its start to its end.
The interval is Student's, of the mean logarithm of the ratios.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

from playwright.sync_api import sync_playwright

T_975 = {4: 3.182, 6: 2.571, 8: 2.365, 10: 2.262, 12: 2.201, 16: 2.131, 20: 2.093}
"""Student's quantile for so many pairs."""
SLOWER = 1.03
PROGRAM = [sys.executable, "-c", "from hpfl.cli import main; main()"]


def pinned(command, cores, **how):
    """A process on some cores, with one thread for its arithmetic."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    listed = ",".join(map(str, sorted(cores)))
    return subprocess.Popen(["taskset", "-c", listed, *command], stdin=subprocess.DEVNULL, env=environment, **how)


def played(out, rounds, core):
    """CPU and wall seconds of one run's process."""
    began = time.perf_counter()
    command = [*PROGRAM, "run", "quickstart", "--rounds", str(rounds), "--out", str(out), "-q"]
    process = pinned(command, {core}, stdout=subprocess.DEVNULL)
    _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return {"CPU": spent.ru_utime + spent.ru_stime, "wall": time.perf_counter() - began}


@contextmanager
def page_of(out, browser, cores):
    """A page of a run to come, open in the browser; afterwards its last round must be that of the run."""
    process = pinned([*PROGRAM, "watch", str(out), "--to-come", "--no-open"], cores, stdout=subprocess.PIPE)
    address = process.stdout.readline().decode().split(" at ")[1].strip()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    try:
        yield page
        last = sum(1 for _ in (out / "rounds.jsonl").open())
        page.wait_for_function("t => document.getElementById('place').textContent === t", arg=f"{last} / {last}")
    finally:
        page.close()
        process.terminate()
        process.wait()


def paired(browser, place, number, options, cores):
    """The seconds of one pair: with a page and without."""
    took = {}
    for name in ("watched", "plain") if number % 2 else ("plain", "watched"):
        out = place / f"{name}-{number}"
        with page_of(out, browser, cores) if name == "watched" else nullcontext():
            took[name] = played(out, options.rounds, options.core)
        shutil.rmtree(out)
    return took


def rows(pairs):
    """The mean ratio of either clock, and its interval."""
    for clock, bar in (("CPU", SLOWER), ("wall", SLOWER)):
        logs = [math.log(took["watched"][clock] / took["plain"][clock]) for took in pairs]
        mean, half = statistics.mean(logs), T_975[len(pairs)] * statistics.stdev(logs) / len(pairs) ** 0.5
        each = statistics.median(took["plain"][clock] for took in pairs)
        yield row(f"a run, {clock}, median without a page", each, "s", None)
        yield row(f"watched over plain, {clock}, mean of {len(pairs)} pairs", math.exp(mean), "ratio", None)
        yield row(f"95 % interval, {clock}, low end", math.exp(mean - half), "ratio", None)
        yield row(f"95 % interval, {clock}, high end", math.exp(mean + half), "ratio", bar)


def row(work, value, unit, bar):
    return {"work": work, "value": round(value, 4), "unit": unit, "bar": bar, "ok": bar is None or bool(value < bar)}


def measured(options):
    """All pairs, one after the other; the browser's processes stay on the other cores."""
    cores = os.sched_getaffinity(0) - {options.core}
    os.sched_setaffinity(0, cores)
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        sys.exit("no chromium was found on PATH; install Debian's chromium")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        played(Path(home) / "first", 2, options.core)  # what is read for the first time counts for nobody
        for number in range(options.pairs):
            found = paired(browser, Path(home), number, options, cores)
            print(json.dumps({"pair": number, **found}), file=sys.stderr, flush=True)
            yield found
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, choices=sorted(T_975), default=10)
    parser.add_argument("--rounds", type=int, default=36)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    for one in rows(list(measured(options))):
        bar = "" if one["bar"] is None else f"   bar below {one['bar']}{'' if one['ok'] else '   MISSED'}"
        print(json.dumps(one) if options.json else f"{one['work']:46} {one['value']:10} {one['unit']}{bar}", flush=True)


if __name__ == "__main__":
    main()
