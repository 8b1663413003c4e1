"""Which job is next: theirs is the order, until few are left, and the longest would end late."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from hpfl.sweeps.jobs import Job
from hpfl.sweeps.order import AHEAD, JobOrder


def job(number, kind):
    return Job(name=f"{kind}/seed-{number}", player="nobody:plays", task={}, rounds=1, like=kind)


def span(jobs, takes, workers):
    """When the last of jobs has ended, and in which order they were begun, by a clock that stands between events."""
    now, waiting, busy, begun = [0.0], deque(jobs), [], []
    order = JobOrder(stopwatch=lambda: now[0])
    while waiting or busy:
        while waiting and len(busy) < workers:
            one = order.next(waiting, workers)
            order.begun(one)
            begun.append(one)
            busy.append((now[0] + takes[one.like], one))
        now[0], one = busy.pop(min(range(len(busy)), key=lambda at: busy[at][0]))
        order.ended(one)
    return now[0], begun


def test_long_jobs_that_come_last_in_their_order_do_not_end_last():
    jobs = [job(number, kind) for number in range(3) for kind in ("short", "short-too", "long")]
    takes = {"short": 1.0, "short-too": 1.0, "long": 4.0}
    ended, begun = span(jobs, takes, workers=2)
    assert begun[:5] == jobs[:5]
    assert ended == sum(takes[each.like] for each in jobs) / 2


@given(
    st.lists(st.sampled_from("abcd"), max_size=30),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(1, 5),
)
def test_every_job_is_begun_once_and_in_order_while_many_are_left(kinds, lengths, workers):
    jobs = [job(number, kind) for number, kind in enumerate(kinds)]
    _, begun = span(jobs, dict(zip("abcd", lengths, strict=True)), workers)
    assert sorted(each.name for each in begun) == sorted(each.name for each in jobs)
    many = max(0, len(jobs) - AHEAD * workers)
    assert begun[:many] == jobs[:many]
