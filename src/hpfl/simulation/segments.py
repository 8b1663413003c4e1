"""Plays an interval to its end: segment after segment of constant gains, until the trigger fires."""

import math
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.channel import Gains
from hpfl.network.energy import transmit_j
from hpfl.simulation.forecast import Forecast, Left, Moved, course_of, moved
from hpfl.simulation.trigger import Firing, after_all, after_first
from hpfl.training.clock import ClockMemory, ClockSettings, Marks, Progress, Span


@dataclass(frozen=True)
class _Tally:
    """What has been done since the plan, per UE and per edge."""

    compute_s: FloatArray
    air_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray
    delivered_s: FloatArray
    sending_s: FloatArray
    settled_s: FloatArray

    @staticmethod
    def none(num_ues: int, num_edges: int) -> "_Tally":
        """Nothing done, nothing happened."""
        ues, edges, never = np.zeros(num_ues), np.zeros(num_edges), np.full(num_edges, np.inf)
        return _Tally(ues, ues, ues, edges, never, never, never)

    def and_then(self, step: Moved, course: Forecast, elapsed_s: float, seconds: float) -> "_Tally":
        """With one more segment, which began `elapsed_s` after the plan."""
        return _Tally(
            self.compute_s + step.compute_s,
            self.air_s + step.air_s,
            self.ue_bits + step.ue_bits,
            self.edge_bits + step.edge_bits,
            _marked(self.delivered_s, course.phase_s, elapsed_s, seconds),
            _marked(self.sending_s, course.starts_s, elapsed_s, seconds),
            _marked(self.settled_s, course.settled_s, elapsed_s, seconds),
        )


def played(interval: Span, left: Left, settings: ClockSettings, memory: ClockMemory) -> tuple[Left, Progress]:
    """What is left when the cloud aggregates, and the progress up to then; `memory` is handed on."""
    links, K = interval.links, interval.plan.scheduled.size
    tally = _Tally.none(links.ue_bits.size, K)
    start, elapsed_s, segment = left, 0.0, 0
    while True:
        gains, until_s = _channel(interval, settings, segment)
        deadline_s = max(settings.deadline_s - elapsed_s, math.ulp(1.0)) if settings.deadline_s else 0.0
        course = course_of(interval, left, gains, deadline_s=deadline_s, elapsed_s=elapsed_s)
        firing = _firing(interval, course, settings)
        over = firing.at_s <= until_s - elapsed_s
        seconds = firing.at_s if over else until_s - elapsed_s
        step = moved(interval, left, course, seconds)
        left, tally = step.left, tally.and_then(step, course, elapsed_s, seconds)
        elapsed_s = elapsed_s + seconds if over else until_s
        segment += 1
        if over:
            break
    arrived, dropped, again = _verdicts(interval, course, firing)
    left = _resent(left, again, interval.whole_edge_bits)
    return left, Progress(
        arrived=arrived,
        dropped=dropped,
        lost=left.lost,
        latency_s=elapsed_s,
        uplink_bits=float(tally.ue_bits.sum() + tally.edge_bits.sum()),
        compute_s=tally.compute_s,
        transmit_j=transmit_j(interval.plan.ue_power_w, tally.air_s),
        marks=_marks(interval, start, tally, elapsed_s),
        memory=memory,
        below=None if interval.needs is None else firing.settled & course.empty,
    )


def _channel(interval: Span, settings: ClockSettings, segment: int) -> tuple[Gains, float]:
    """The gains of a segment, and when it ends, in seconds after the plan."""
    if not settings.coherence_s or interval.gains is None:
        return Gains(ue=interval.links.ue_gain, edge=interval.links.edge_gain), math.inf
    block = math.floor(interval.start_s / settings.coherence_s) + segment
    ends_s = (block + 1) * settings.coherence_s - interval.start_s
    return interval.gains(segment), max(ends_s, 0.0)


def _firing(interval: Span, course: Forecast, settings: ClockSettings) -> Firing:
    if settings.trigger == "scheduled":
        return after_all(course.settled_s, interval.plan.scheduled)
    return after_first(
        course.settled_s,
        interval.plan.scheduled,
        spoilt=course.empty | _fails(interval),
        must=interval.must,
        max_edges=settings.max_edges,
    )


def _verdicts(interval: Span, course: Forecast, firing: Firing) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Of the settled edges: those that arrived, those whose update is lost, and those that must send it again.

    An edge at the staleness bound may not try again: it would exceed the bound, so it gives its update up.
    """
    fails = _fails(interval) & ~course.empty
    dropped = firing.settled & (course.empty | (fails & interval.must))
    again = firing.settled & fails & ~interval.must
    return firing.settled & ~course.empty & ~fails, dropped, again


def _resent(left: Left, again: BoolArray, whole_bits: FloatArray) -> Left:
    return replace(left, edge_bits=np.where(again, whole_bits, left.edge_bits)) if again.any() else left


def _marks(interval: Span, start: Left, tally: _Tally, latency_s: float) -> Marks:
    """Edge by edge, what the timeline shows: an upload begins with the first UE that has computed."""
    links, called = interval.links, interval.plan.scheduled
    K, edge_of = called.size, links.edge_of_ue
    at_work = (start.ue_bits > 0) & ~start.lost
    first_s, last_s = np.full(K, np.inf), np.zeros(K)
    np.minimum.at(first_s, edge_of[at_work], start.compute_s[at_work])
    np.maximum.at(last_s, edge_of, start.compute_s)
    computed_s = np.where(called, np.where(np.isinf(first_s), 0.0, first_s), last_s)
    return Marks(
        computed_s=np.minimum(computed_s, latency_s),
        delivered_s=np.where(called, tally.delivered_s, np.inf),
        sending_s=np.where(called, tally.sending_s, np.inf),
        settled_s=np.where(called, tally.settled_s, np.inf),
        ue_bits=np.bincount(edge_of, weights=tally.ue_bits, minlength=K).astype(np.float64),
        edge_bits=tally.edge_bits,
    )


def _marked(known_s: FloatArray, ahead_s: FloatArray, elapsed_s: float, seconds: float) -> FloatArray:
    """Moments already known, and those that the segment of `seconds` has brought."""
    return np.where(np.isinf(known_s) & (ahead_s <= seconds), elapsed_s + ahead_s, known_s)


def _fails(interval: Span) -> BoolArray:
    fails = interval.edge_fails
    return np.zeros(interval.must.size, dtype=np.bool_) if fails is None else fails
