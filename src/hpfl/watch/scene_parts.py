"""One part of many scenes, over rounds: read from its place in each line, without the rest of the line."""

from pathlib import Path
from typing import Any

from hpfl.reporting.folder import SCENES
from hpfl.watch.by_round import RoundLines, round_of
from hpfl.watch.columns import chosen_rounds
from hpfl.watch.shown import parsed
from hpfl.watch.watched_run import WatchedRun

MOST_ROUNDS = 1_000
_MOST_BYTES = 1 << 28


def shown_rounds(
    run: WatchedRun, first: int | None, last: int | None, most: int = MOST_ROUNDS
) -> tuple[list[int], int]:
    """At most about `most` rounds of a stretch, both ends among them, and the step from one to the next."""
    count = len(run.rounds)
    start, end = max(first or 1, 1), min(last or count, count)
    step = max(-(-(end - start + 1) // most), 1)
    return (list(range(start, end + 1)) if step == 1 else chosen_rounds(start, end, step)), step


def part_of_scenes(folder: Path, rounds: list[int], step: int, name: str) -> list[dict[str, Any]]:
    """The object called `name` of every round's scene; empty where a round has none."""
    if not rounds:
        return []
    lines = RoundLines(folder / SCENES)
    found = lines.between(rounds[0], rounds[-1], most_bytes=_MOST_BYTES) if step == 1 else lines.some(rounds)
    known = {round_of(line): _part(line, name) for line in found}
    return [known.get(number) or {} for number in rounds]


def _part(line: bytes, name: str) -> dict[str, Any] | None:
    """An object that has no other within, by its name."""
    sought = b'"%s": ' % name.encode()
    start = line.find(sought) + len(sought)
    return parsed(line[start : line.find(b"}", start) + 1]) if start >= len(sought) else None
