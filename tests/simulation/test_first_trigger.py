"""Trigger `first` against a plain event loop: one object per UE and edge, a queue of events, nothing shared."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_worlds import by_hand, memory_of

from hpfl.simulation.event import EventClock
from hpfl.training.clock import ClockSettings

COMPUTED, DELIVERED, ARRIVED = range(3)


def brute_force(interval, wanted):
    """Process events one by one: (time, edge, kind, UE); equal times go by edge."""
    links, plan = interval.links, interval.plan
    rate = np.where(plan.ue_bandwidth_hz > 0, links.ue_gain, 0.0)
    back = np.where(plan.edge_bandwidth_hz > 0, links.edge_gain, 0.0)
    fails = interval.edge_fails
    queue, waiting_for, began, starts = [], {}, {}, {}
    for k in range(len(back)):
        own = [i for i in range(len(rate)) if links.edge_of_ue[i] == k]
        waiting_for[k] = {i for i in own if links.ue_bits[i] > 0}
        for i in waiting_for[k]:
            heapq.heappush(queue, (links.compute_s[i], k, COMPUTED, i))
        if not waiting_for[k]:
            starts[k] = 0.0
            heapq.heappush(queue, (links.edge_bits[k] / back[k], k, ARRIVED, -1))
    arrived, failed, owed, now = [], [], {k for k in range(len(back)) if interval.must[k]}, 0.0
    while queue:
        now, k, kind, i = heapq.heappop(queue)
        if kind == COMPUTED:
            began[i] = now
            heapq.heappush(queue, (now + links.ue_bits[i] / rate[i], k, DELIVERED, i))
        elif kind == DELIVERED:
            waiting_for[k].remove(i)
            if not waiting_for[k]:
                starts[k] = now
                heapq.heappush(queue, (now + links.edge_bits[k] / back[k], k, ARRIVED, -1))
        else:
            (failed if fails[k] else arrived).append(k)
            owed.discard(k)
            if len(arrived) >= min(wanted, len(back) - len(failed)) and not owed:
                break
    bits = [max(links.ue_bits[i] - rate[i] * max(now - began.get(i, now), 0.0), 0.0) for i in range(len(rate))]
    edge_bits = [max(links.edge_bits[k] - back[k] * max(now - starts.get(k, now), 0.0), 0.0) for k in range(len(back))]
    for k in failed:
        edge_bits[k] = interval.whole_edge_bits[k] if not interval.must[k] else 0.0
    return now, arrived, bits, edge_bits


@st.composite
def intervals(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    K, N = len(sizes), sum(sizes)
    whole = st.integers(1, 9)

    def row(count, of=whole):
        return draw(st.lists(of, min_size=count, max_size=count))

    return by_hand(
        edge_of=np.repeat(np.arange(K), sizes),
        compute_s=row(N, st.integers(0, 9)),
        ue_bits=row(N, st.one_of(whole, st.just(0))),
        ue_rate=row(N),
        edge_bits=row(K),
        edge_rate=row(K),
        must=row(K, st.booleans()),
        edge_fails=row(K, st.sampled_from([False, False, True])),
    )


@settings(deadline=None, max_examples=300)
@given(interval=intervals(), wanted=st.integers(1, 7))
def test_first_equals_a_plain_event_loop(interval, wanted):
    clock = EventClock(ClockSettings(trigger="first", max_edges=wanted))
    progress = clock.advance(memory_of(interval), interval)
    now, arrived, bits, edge_bits = brute_force(interval, wanted)
    assert progress.latency_s == pytest.approx(now, rel=1e-12)
    assert np.flatnonzero(progress.arrived).tolist() == sorted(arrived)
    assert progress.memory["ue_bits"] == pytest.approx(bits, abs=1e-9)
    kept = ~progress.dropped
    assert progress.memory["edge_bits"][kept] == pytest.approx(np.array(edge_bits)[kept], abs=1e-9)
