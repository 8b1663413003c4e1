"""What watching costs its server: first charts of long runs, one round of them; and the run: the scenes it writes.

python benchmarks/watch.py            a table with the bar beside each figure
python benchmarks/watch.py --json     one JSON object per row: work, value, unit, bar, ok

`watch_pairs.py` compares runs with and without a page, `watch_page.py` measures the page in a browser.
"""

import argparse
import http.client
import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

LONG = (10_000, 100_000)


def row(work, value, unit, bar):
    return {"work": work, "value": round(value, 4), "unit": unit, "bar": bar, "ok": bar is None or bool(value <= bar)}


def lengthened(folder, target, rounds):
    """A run of as many rounds as wanted, made of the lines of a short one."""
    target.mkdir()
    shutil.copy(folder / "config.toml", target)
    for name in ("rounds.jsonl", "scenes.jsonl"):
        few = (folder / name).read_bytes().splitlines(keepends=True)
        rests = [line[line.index(b",") :] for line in few]
        with (target / name).open("wb") as file:
            file.writelines(b'{"round": %d' % number + rests[number % len(rests)] for number in range(1, rounds + 1))
    return target


class Server:
    """A page's server in a thread, and the CPU seconds that an answer takes of this process."""

    def __init__(self, folder):
        from hpfl.watch.page_answers import FolderAnswers
        from hpfl.watch.run_sources import Sources
        from hpfl.watch.serving import PageAddress, PageServer

        self._server = PageServer(FolderAnswers(Sources.of([folder])), PageAddress(port=0))
        self._at = self._server.address.split("/")[2]
        self._thread = threading.Thread(target=self._server.serve)

    def __enter__(self):
        self._thread.start()
        self.seconds("/style.css")
        return self

    def __exit__(self, *_):
        self._server.stop()
        self._thread.join()

    def seconds(self, path):
        began = time.process_time()
        connection = http.client.HTTPConnection(self._at, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200, path
        return time.process_time() - began


def long_runs(folder, place):
    """CPU seconds of the first questions of a page about long runs, and of one round."""
    for rounds in LONG:
        long = lengthened(folder, place / f"of-{rounds}", rounds)
        with Server(long) as server:
            first = server.seconds("/api/runs") + server.seconds("/api/runs/r0/columns")
            yield row(f"first columns of {rounds} rounds", first, "s CPU", 0.5)
            middle = statistics.median(server.seconds(f"/api/runs/r0/rounds/{rounds // 2 + n}") for n in range(9))
            yield row(f"one round of {rounds} whole", middle, "s CPU", 0.05)
            yield row(f"heat maps of {rounds} rounds", server.seconds("/api/runs/r0/edges"), "s CPU", 0.5)
        shutil.rmtree(long)


def scenes(place):
    """Share of a round's CPU time that making and writing its scene takes."""
    import hpfl
    import hpfl.reporting.scenes as writing
    import hpfl.training.loop as loop

    spent = [0.0]

    def timed(work):
        def call(*given, **named):
            began = time.process_time()
            found = work(*given, **named)
            spent[0] += time.process_time() - began
            return found

        return call

    loop.scene_of = timed(loop.scene_of)
    writing.SceneFile.round = timed(writing.SceneFile.round)
    marks = []
    hooks = hpfl.Hooks(on_round=lambda record: marks.append((time.process_time(), spent[0])), note=lambda text: None)
    hpfl.run(hpfl.load("quickstart", overrides=["training.rounds=20"]), out=place / "timed", figures=False, hooks=hooks)
    (began, before), (ended, after) = marks[0], marks[-1]
    yield row("scenes of quickstart, of a round", 100 * (after - before) / (ended - began), "%", 1.0)
    yield row("a scene of quickstart", 1e3 * (after - before) / (len(marks) - 1), "ms CPU", None)


def rows():
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        yield from scenes(place)
        yield from long_runs(place / "timed", place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for one in rows():
        bar = "" if one["bar"] is None else f"   bar {one['bar']}{'' if one['ok'] else '   MISSED'}"
        print(json.dumps(one) if asked.json else f"{one['work']:46} {one['value']:10} {one['unit']}{bar}", flush=True)


if __name__ == "__main__":
    main()
