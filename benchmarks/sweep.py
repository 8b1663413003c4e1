"""What a sweep costs beside its runs: wall time of 36 short runs in two workers over half the sum of their own times,
and the processor seconds of the process that hands them out.

`python benchmarks/sweep.py`: 4 bandwidths x 3 planners x 3 seeds of `quickstart`, as `hpfl sweep` runs them. A run's
own time is what it took in its worker, data and files included. The first row begins when the first worker is started,
imports of both included; the second has validation, tables, figures and page as well. The third is what the parent
computes while its workers do, for each second of theirs: with as many workers as its inverse it would hold them up.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpfl.sweeps.local_engine import LocalEngine
from hpfl.sweeps.outputs import write_outputs
from hpfl.sweeps.runner import Place, play_parts
from hpfl.sweeps.study_file import study_of
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import BasedStudy, base_of, claim
from hpfl.sweeps.sweep_plan import planned
from hpfl.sweeps.swept import swept

BAR = 1.05
PARENT_BAR = 0.05
GRID = {"network.bandwidth_hz": [1e6, 2e6, 5e6, 2e7], "planning.planner": ["fastest", "paper", "random"]}


def rows(rounds: int, workers: int) -> Iterator[dict[str, Any]]:
    """The two ratios, with the seconds that they are of."""
    tree = {"base": "quickstart", "set": {"training.rounds": rounds}, "grid": GRID, "seeds": 3}
    study = study_of(tree, where="benchmark")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        began = time.perf_counter()
        sweep = planned(BasedStudy(study=study, base=base_of(study)), out)
        claim(out, sweep.based)
        first, computed = time.perf_counter(), time.process_time()
        place = Place(out=out, device="cpu")
        left = play_parts(sweep.parts, place, LocalEngine(workers), SweepDisplay(quiet=True))
        last, computed = time.perf_counter(), time.process_time() - computed
        if left:
            raise SystemExit(f"runs are missing: {left}")
        own_s = sum(run.wall_s for run in swept(sweep).runs)
        yield _row(f"{len(sweep.parts)} runs, start of workers included", last - first, own_s, workers)
        read = time.perf_counter()
        write_outputs(swept(sweep), out, print)
        share = computed / own_s
        yield {
            "work": "the parent's processor, of the runs' own time", "value": share, "unit": "x", "bar": PARENT_BAR,
            "ok": share <= PARENT_BAR, "took_s": computed, "own_s": own_s, "workers": workers,
        }  # fmt: skip
        yield _row("the whole sweep", last - began + time.perf_counter() - read, own_s, workers)


def _row(work: str, took_s: float, own_s: float, workers: int) -> dict[str, Any]:
    ratio = took_s / (own_s / workers)
    row = {"work": work, "value": ratio, "unit": "x", "bar": BAR, "ok": ratio <= BAR}
    return {**row, "took_s": took_s, "own_s": own_s, "workers": workers}


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
        print(json.dumps(row) if options.json else f"{row['work']:44s} {times}   {verdict}", flush=True)


if __name__ == "__main__":
    main()
