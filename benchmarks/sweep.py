"""What a sweep costs beside its runs: wall time of 36 short runs in two workers over half the sum of their own times,
and the processor seconds of the process that hands them out.

`python benchmarks/sweep.py`: 4 bandwidths x 3 planners x 3 seeds of `quickstart`, by the command `hpfl sweep`. A run's
own time is what it took in its worker, data and files included. The first row is from the moment at which the command
is called to its last result: the start of Python, imports, validation and workers included; the second begins with
the first run. The third has tables, figures and page as well. The fourth is what the command computes while its workers
do, for each second of theirs: with as many workers as its inverse it would hold them up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BAR = 1.05
PARENT_BAR = 0.05
RUNS = 36
GRID = ("network.bandwidth_hz=1e6,2e6,5e6,2e7", "planning.planner=fastest,paper,random")


def rows(rounds: int, workers: int) -> Iterator[dict[str, Any]]:
    """The two ratios and the share, with the seconds that they are of."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [word for axis in GRID for word in ("--vary", axis)] + ["--set", f"training.rounds={rounds}"]
        options = ["--seeds", "3", "--workers", str(workers), "--device", "cpu", "--quiet", "--out", str(out)]
        began, computed = time.time(), [0.0, 0.0]
        command = [sys.executable, "-c", "from hpfl.cli import main; main()", "sweep", "quickstart", *words, *options]
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                ended = len(results(out))
                if ended < RUNS:
                    computed[min(ended, 1)] = computed_s(process.pid)
                time.sleep(0.05)
        whole_s = time.time() - began
        if process.returncode:
            raise SystemExit(f"the sweep ended with {process.returncode}")
        files = results(out)
        ends = [file.stat().st_mtime - began for file in files]
        own = [json.loads(file.read_text())["wall_s"] for file in files]
        last_s, own_s, first_s = max(ends), sum(own), min(end - took for end, took in zip(ends, own, strict=True))
    seconds = {"own_s": own_s, "workers": workers}
    every = {
        "36 runs, from the call of the command": last_s,
        "from the beginning of the first run": last_s - first_s,
        "with tables, figures and page": whole_s,
    }
    for work, took_s in every.items():
        ratio = took_s / (own_s / workers)
        yield {"work": work, "value": ratio, "bar": BAR, "ok": ratio <= BAR, "took_s": took_s, **seconds}
    spent = computed[1] - computed[0]  # from the first result on
    share = spent / own_s
    work = "the command's processor, of the runs' own time"
    yield {"work": work, "value": share, "bar": PARENT_BAR, "ok": share <= PARENT_BAR, "took_s": spent, **seconds}


def results(out: Path) -> list[Path]:
    """One file for every run that is over."""
    return list(out.glob("parts/*/*.json"))


def computed_s(pid: int) -> float:
    """Processor seconds of a process, without its children's."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """A table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for row in rows(options.rounds, options.workers):
        times = f"{row['took_s']:6.1f} s, own times {row['own_s']:6.1f} s in {row['workers']} workers"
        verdict = f"{row['value']:5.3f} x   bar {row['bar']} x, {'met' if row['ok'] else 'MISSED'}"
        print(json.dumps(row) if options.json else f"{row['work']:46s} {times}   {verdict}", flush=True)


if __name__ == "__main__":
    main()
