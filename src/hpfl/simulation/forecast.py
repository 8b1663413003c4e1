"""An interval while bandwidths and gains stay: when everything will happen, and where it stands at a time.

A UE computes, then transmits; its edge's backhaul starts when all its UEs' updates are there or given up, and where the
band is shared anew in each phase not before its switch. Every quantity is a closed form of what is left, so no step
size enters.
"""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.channel import Gains
from hpfl.network.cutoff import cut_s
from hpfl.network.latency import rate_bps
from hpfl.planning.spectrum import backhaul_starts_s, is_one_switch
from hpfl.training.clock import Span

_HAIR = 2.0**-52  # of the bits before: what an upload has left that ends one rounding after the interval


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is left on every link, which UEs' updates are at their edge, and which were given up.

    Where nobody has anything to send, a UE is heard when it has computed.
    """

    compute_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray
    heard: BoolArray
    lost: BoolArray


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """When things will happen, in seconds from now; infinite where nothing is planned.

    `ends_s` are the UEs' deliveries, `cut_s` when their edge stops waiting for them, `phase_s` the edges' phases,
    `starts_s` their backhauls' beginnings, `settled_s` the arrival of an edge's update, or the moment it is clear that
    there will be none (`empty`).
    """

    sends: BoolArray
    late: BoolArray
    ue_rate_bps: FloatArray
    upload_s: FloatArray
    ends_s: FloatArray
    cut_s: FloatArray
    edge_rate_bps: FloatArray
    edge_upload_s: FloatArray
    phase_s: FloatArray
    starts_s: FloatArray
    settled_s: FloatArray
    empty: BoolArray


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Where everything stands after some seconds, and what each UE and edge did meanwhile."""

    left: Left
    compute_s: FloatArray
    air_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray


def course_of(interval: Span, left: Left, gains: Gains, *, deadline_s: float, elapsed_s: float = 0.0) -> Forecast:
    """The course of a plan made `elapsed_s` ago from what is left; `deadline_s` from now on, 0 for none."""
    links, plan = interval.links, interval.plan
    called, edge_of = plan.scheduled, links.edge_of_ue
    sends = called[edge_of] & ((left.ue_bits > 0) | (~left.heard & (left.compute_s > 0))) & ~left.lost
    ue_rate = rate_bps(plan.ue_bandwidth_hz, plan.ue_power_w * (gains[0] / links.ue_noise_w_per_hz))
    upload_s = _seconds(left.ue_bits, ue_rate, sends & (left.ue_bits > 0))
    ends_s = np.where(sends, left.compute_s + upload_s, 0.0)
    cuts_s = cut_s(deadline_s, _first(ends_s, edge_of, sends, left.heard, called.size))
    late = sends & (ends_s > cuts_s[edge_of])
    phase_s = np.zeros(called.size)
    np.maximum.at(phase_s, edge_of, ends_s)
    phase_s = np.minimum(phase_s, cuts_s)
    edge_rate = rate_bps(plan.edge_bandwidth_hz, links.edge_power_w * (gains[1] / links.edge_noise_w_per_hz))
    edge_upload_s = _seconds(left.edge_bits, edge_rate, called & (left.edge_bits > 0))
    heard = np.bincount(edge_of[left.heard | (sends & ~late & ~_fails(interval))], minlength=called.size)
    empty = called & (heard < (1 if interval.needs is None else interval.needs))
    starts_s = _starts_s(interval, phase_s, left.edge_bits, elapsed_s)
    settled_s = np.where(called, np.where(empty, phase_s, starts_s + edge_upload_s), np.inf)
    return Forecast(
        sends=sends,
        late=late,
        ue_rate_bps=ue_rate,
        upload_s=upload_s,
        ends_s=ends_s,
        cut_s=cuts_s[edge_of],
        edge_rate_bps=edge_rate,
        edge_upload_s=edge_upload_s,
        phase_s=phase_s,
        starts_s=starts_s,
        settled_s=settled_s,
        empty=empty,
    )


def moved(interval: Span, left: Left, course: Forecast, seconds: float) -> Moved:
    """What is left after `seconds` of a course; computing goes on everywhere, bits move on planned links alone."""
    compute_s = np.minimum(left.compute_s, np.where(course.late, np.minimum(course.cut_s, seconds), seconds))
    done = course.sends & ~course.late & (course.ends_s <= seconds)
    given_up = course.late & (course.cut_s <= seconds)
    spoilt = done & _fails(interval)
    on_air_s = np.clip(np.minimum(seconds, course.cut_s) - left.compute_s, 0.0, course.upload_s)
    air_s = np.where(done, course.upload_s, np.where(course.sends, on_air_s, 0.0))
    ue_sent = _sent(left.ue_bits, course.ue_rate_bps, air_s, done)
    arrives = interval.plan.scheduled & ~course.empty & (course.settled_s <= seconds)
    edge_air_s = np.clip(seconds - course.starts_s, 0.0, np.where(course.empty, 0.0, course.edge_upload_s))
    edge_sent = _sent(left.edge_bits, course.edge_rate_bps, edge_air_s, arrives)
    return Moved(
        left=Left(
            compute_s=np.where(given_up, 0.0, left.compute_s - compute_s),
            ue_bits=np.where(done | given_up, 0.0, left.ue_bits - ue_sent),
            edge_bits=np.where(arrives, 0.0, left.edge_bits - edge_sent),
            heard=left.heard | (done & ~spoilt),
            lost=left.lost | spoilt | given_up,
        ),
        compute_s=compute_s,
        air_s=air_s,
        ue_bits=ue_sent,
        edge_bits=edge_sent,
    )


def _starts_s(interval: Span, phase_s: FloatArray, edge_bits: FloatArray, elapsed_s: float) -> FloatArray:
    """When backhauls begin, from now on. One switch comes when the last of the called edges' phases is over.

    So it does where gains change or UEs are cut off, and links never use more than the band. An edge that switches at a
    moment of its own waits for that, and for the phases of those that were to switch before it.
    """
    called, switch_s = interval.plan.scheduled, interval.plan.switch_s
    if switch_s is None:
        return phase_s
    if is_one_switch(switch_s, called):
        return backhaul_starts_s(phase_s, np.full(phase_s.size, np.max(phase_s[called], initial=0.0)), edge_bits > 0)
    before = called & (switch_s <= switch_s[:, None])
    over_s = np.max(np.where(before, phase_s, 0.0), axis=1, initial=0.0)
    return backhaul_starts_s(over_s, switch_s - elapsed_s, edge_bits > 0)


def _seconds(bits: FloatArray, rate: FloatArray, sends: BoolArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sends, bits / rate, 0.0)


def _sent(bits: FloatArray, rate: FloatArray, air_s: FloatArray, whole: BoolArray) -> FloatArray:
    """All of the bits where the upload is done; else what the air time carries, and never quite all."""
    return np.where(whole, bits, np.minimum(rate * air_s, bits * (1.0 - _HAIR)))


def _first(ends_s: FloatArray, edge_of: IntArray, sends: BoolArray, heard: BoolArray, K: int) -> FloatArray:
    """When each edge has its first update: 0 where it has one."""
    first_s = np.full(K, np.inf)
    np.minimum.at(first_s, edge_of[sends], ends_s[sends])
    first_s[edge_of[heard]] = 0.0
    return np.where(np.isinf(first_s), 0.0, first_s)


def _fails(interval: Span) -> BoolArray:
    fails = interval.ue_fails
    return np.zeros(interval.links.ue_bits.size, dtype=np.bool_) if fails is None else fails
