"""Cells of deadlines for the search over sets: an interval for every hop of a round, and the lines that hold in each.

With one hop a box is an interval of `O`; with two it is one of `G`, for the UEs' uploads, beside one of `T`, for the
backhauls. Edges that have nothing to send in a hop take no time in it, so `G` or `T` may also be 0 exactly.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.hops import HopLines, hops_of
from hpfl.planning.lines import Lines, tabulate
from hpfl.planning.load import Load, load_of
from hpfl.planning.problem import RoundProblem


@dataclass(frozen=True)
class Boxes:
    """Intervals of deadlines by hop and box [hops, boxes]."""

    starts_s: FloatArray
    ends_s: FloatArray

    def __len__(self) -> int:
        return int(self.starts_s.shape[1])

    def rows(self, index: IntArray | BoolArray) -> "Boxes":
        """The chosen boxes."""
        return Boxes(self.starts_s[:, index], self.ends_s[:, index])

    def narrow(self, ratio: float) -> bool:
        """Whether no interval's end is more than `ratio` times its start."""
        return bool((self.ends_s <= self.starts_s * ratio).all())

    def divided(self, parts: int) -> tuple["Boxes", IntArray]:
        """Boxes with intervals of equal ratio in place of every box, and which box each comes from."""
        made = [_divided(row, parts) for row in zip(self.starts_s.T, self.ends_s.T, strict=True)]
        parents = np.repeat(np.arange(len(made)), [starts_s.shape[1] for starts_s, _ in made])
        starts_s, ends_s = (np.concatenate(columns, axis=1) for columns in zip(*made, strict=True))
        return Boxes(starts_s, ends_s), parents


def first_boxes(hops_s: list[tuple[float, float]], high_s: float, parts: int) -> Boxes:
    """Boxes of all deadlines that are `high_s` together at most.

    Of each hop `hops_s` says when the first set may be through, and the first that sends; if those differ, a set that
    sends nothing in the hop is through at 0.
    """
    low_s = [pair[0] for pair in hops_s]
    choices = []
    for hop, (from_s, sends_s) in enumerate(hops_s):
        last_s = high_s - (sum(low_s) - low_s[hop])
        silent = [(np.zeros(1), np.zeros(1))] if from_s < sends_s else []
        sending = [_interval(sends_s, last_s, parts)] if sends_s < last_s else []
        starts_s, ends_s = (np.concatenate(marks_s) for marks_s in zip(*silent, *sending, strict=True))
        choices.append((starts_s, ends_s))
    starts_s, ends_s = _all_of(choices)
    return Boxes(starts_s, ends_s).rows(starts_s.sum(axis=0) < high_s)


def _divided(box: tuple[FloatArray, FloatArray], parts: int) -> tuple[FloatArray, FloatArray]:
    return _all_of([_interval(start_s, end_s, parts) for start_s, end_s in zip(*box, strict=True)])


def _interval(start_s: float, end_s: float, parts: int) -> tuple[FloatArray, FloatArray]:
    """Intervals of equal ratio in place of one; what is a moment stays one."""
    if start_s == end_s:
        return np.array([start_s]), np.array([end_s])
    marks_s = start_s * (end_s / start_s) ** (np.arange(parts + 1) / parts)
    marks_s[0], marks_s[-1] = start_s, end_s
    return marks_s[:-1], marks_s[1:]


def _all_of(choices: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Every choice of an interval for each hop: starts and ends [hops, boxes]."""
    grid = np.array(list(product(*(range(starts_s.size) for starts_s, _ in choices)))).T
    starts_s = np.stack([starts_s[at] for (starts_s, _), at in zip(choices, grid, strict=True)])
    return starts_s, np.stack([ends_s[at] for (_, ends_s), at in zip(choices, grid, strict=True)])


@dataclass(frozen=True, kw_only=True)
class BoxTable:
    """Lines of every hop with the corners of all boxes: seconds [hops, corners, boxes], Hz [corners, boxes, edges]."""

    tables: HopLines
    corners_s: FloatArray
    corners_hz: tuple[FloatArray, ...]
    usable: BoolArray  # [boxes, edges]: may finish before the box ends
    num_ues: int


def tabulated(problem: RoundProblem, allowed: BoolArray, boxes: Boxes) -> BoxTable:
    """The lines of all allowed edges in all boxes."""
    corners_s = _corners(boxes)
    hops, corners_hz, num_ues = [], [], 0
    usable = np.ones((len(boxes), allowed.size), dtype=np.bool_)
    for hop, starts_s, ends_s, corner_s in zip(hops_of(problem), boxes.starts_s, boxes.ends_s, corners_s, strict=True):
        load = load_of(hop, allowed)
        lines, at = _lines(load, allowed, (starts_s, ends_s), hop.bandwidth_hz)
        hops.append(lines)
        corners_hz.append(lines.intercept[at] - lines.slope[at] * corner_s[..., None])
        usable &= lines.usable[at]
        num_ues += load.ues.size
    return BoxTable(
        tables=HopLines(tuple(hops), problem.bandwidth_hz),
        corners_s=corners_s,
        corners_hz=tuple(corners_hz),
        usable=usable,
        num_ues=num_ues,
    )


def _lines(
    load: Load, allowed: BoolArray, cells_s: tuple[FloatArray, FloatArray], bandwidth_hz: float
) -> tuple[Lines, IntArray]:
    """The lines of one hop, once for each distinct interval, and which of them every box has."""
    intervals_s, at = np.unique(np.stack(cells_s, axis=1), axis=0, return_inverse=True)
    some = intervals_s[intervals_s[:, 1] > 0]
    lines = tabulate(load, allowed, (some[:, 0], some[:, 1]), bandwidth_hz=bandwidth_hz)
    return lines if len(some) == len(intervals_s) else _with_silence(lines, load, allowed), at.ravel()


def _with_silence(lines: Lines, load: Load, allowed: BoolArray) -> Lines:
    """The lines, and before them the moment 0, at which only those are through that have nothing to send."""
    silent = allowed.copy()
    silent[load.edges] = False
    nothing = np.zeros((1, allowed.size))
    return replace(
        lines,
        points_s=np.append(0.0, lines.points_s),
        starts_s=np.append(0.0, lines.starts_s),
        ends_s=np.append(0.0, lines.ends_s),
        intercept=np.concatenate([nothing, lines.intercept]),
        slope=np.concatenate([nothing, lines.slope]),
        usable=np.concatenate([silent[None], lines.usable]),
    )


def _corners(boxes: Boxes) -> FloatArray:
    ends = np.stack([boxes.starts_s, boxes.ends_s])  # [2, hops, boxes]
    which = np.array(list(product((0, 1), repeat=boxes.starts_s.shape[0])))
    return np.stack([ends[which[:, hop], hop] for hop in range(which.shape[1])])
