"""Attendance: waits are learnt within bounds, who misses is left out, who answers when asked again is let in."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.opening import Opening
from hpfl.deployment.roll_call import RollCall
from hpfl.deployment.settings import TimingSettings
from hpfl.deployment.usual_seconds import Patience, UsualSeconds

SECONDS = st.floats(0.0, 1e4)


class Book:
    """Attendance on a clock that is set by hand; `told` is what it has said."""

    def __init__(self, **rule):
        self.now_s, self.told = 0.0, []
        rule = {"patience": Patience(least_s=0.5), **rule}
        self.kept = Attendance(lambda: self.now_s, lambda *what: self.told.append(what[:2]), **rule)

    def __getattr__(self, name):
        return getattr(self.kept, name)


def test_before_anybody_has_answered_the_limit_holds():
    assert Book().patience_s([0, 1], 120.0) == 120.0


def test_a_wait_is_a_multiple_of_what_a_child_usually_takes_and_forgets_a_slow_answer_slowly():
    book = Book()
    for number in (0, 1, 2):
        book.took(number, 2.0)
    assert book.patience_s([0], 120.0) == 8.0
    book.took(0, 4.0)
    assert book.patience_s([0], 120.0) == 16.0
    for _ in range(100):
        book.took(0, 2.0)
    assert book.patience_s([0], 120.0) == pytest.approx(8.0, rel=1e-3)
    assert book.patience_s([0], 3.0) == 3.0


def test_one_slow_child_is_waited_for_only_as_long_as_others_make_credible():
    book = Book()
    for number in (0, 1, 2):
        book.took(number, 0.1)
    book.took(3, 50.0)
    assert book.patience_s([3], 120.0) == 1.0  # ten times a tenth of a second
    assert book.patience_s([0, 1, 2], 120.0) == 0.5


def test_a_child_that_was_never_heard_has_time_to_warm_up_once():
    book = Book()
    book.took(0, 0.01)
    assert book.patience_s([1], 120.0) == 5.0
    book.missed(1, "no sketch came")
    assert book.patience_s([1], 120.0) == 0.5


@given(st.lists(st.tuples(st.integers(0, 5), SECONDS), min_size=1), st.floats(0.1, 200.0), st.sampled_from([0.8, 1.0]))
def test_a_wait_never_exceeds_the_limit_nor_falls_below_the_least(answers, limit_s, share):
    book = Book(patience=Patience(least_s=0.5, share=share))
    for number, seconds in answers:
        book.took(number, seconds)
    assert min(0.5 * share, limit_s) <= book.patience_s(range(6), limit_s) <= limit_s


@given(st.lists(SECONDS, min_size=1))
def test_edges_wait_less_than_their_cloud_for_the_same_answers(answers):
    cloud, edge = Book(), Book(patience=Patience(least_s=0.5, share=0.8))
    for seconds in answers:
        cloud.took(0, seconds)
        edge.took(0, seconds)
    assert edge.patience_s([0], 1e9) <= cloud.patience_s([0], 1e9) * 0.8


def test_two_misses_leave_a_child_out_and_an_answer_when_asked_again_lets_it_in():
    book = Book()
    book.missed(1, "late", cost_s=1.0)
    assert not book.is_left_out(1)
    book.missed(1, "late", cost_s=1.0)
    assert book.is_left_out(1)
    assert book.left_out() == {1}
    book.answered(1)  # to what it was asked before
    assert book.is_left_out(1)
    assert not book.is_due(1)
    book.now_s = 20.0  # ten times what it has cost
    assert book.is_due(1)
    book.probed(1)
    assert not book.is_due(1)
    book.answered(1)
    assert not book.is_left_out(1)
    assert book.told == [("missed", 1), ("missed", 1), ("left out", 1), ("let in again", 1)]


def test_who_relapses_is_left_out_at_once_and_for_longer():
    book = Book()
    book.missed(1, "late", cost_s=1.0)
    book.missed(1, "late", cost_s=1.0)
    book.now_s = 20.0
    book.probed(1)
    book.answered(1)
    book.missed(1, "late", cost_s=1.0)
    assert book.is_left_out(1)
    book.now_s = 39.9
    assert not book.is_due(1)


def test_answers_in_between_do_not_hide_every_other_miss():
    book = Book()
    for _ in range(3):
        book.missed(1, "late")
        book.answered(1)
    assert book.is_left_out(1)


def test_sketches_do_not_make_up_for_updates_that_are_withheld():
    book = Book()
    for _ in range(2):
        book.answered(1, "sketch")
        book.missed(1, "withheld", "update")
    assert book.is_left_out(1, "sketch")
    assert not book.is_left_out(1, "figures")


def test_who_does_not_evaluate_still_trains():
    book = Book()
    book.missed(1, "no figures", "figures")
    book.missed(1, "no figures", "figures")
    assert book.is_left_out(1, "figures")
    assert not book.is_left_out(1)


def test_a_strike_leaves_out_at_once_each_time_for_twice_as_long():
    book = Book()
    ends = []
    for _ in range(3):
        began = book.now_s
        book.strike(1, "its sketch is not of its update")
        assert book.is_left_out(1)
        assert book.is_left_out(1, "figures")
        while not book.is_due(1):
            book.now_s += 10.0
        ends.append(book.now_s - began)
        book.probed(1)
        book.answered(1)
        assert not book.is_left_out(1)
    assert ends == [60.0, 120.0, 240.0]


def test_who_does_not_answer_is_asked_again_ever_more_rarely():
    book = Book()
    book.missed(1, "late", cost_s=0.5)
    book.missed(1, "late", cost_s=0.5)
    asked = []
    while book.now_s < 400.0:
        book.now_s += 1.0
        if book.is_due(1):
            book.probed(1)
            asked.append(book.now_s)
    assert asked == [10.0, 30.0, 70.0, 150.0, 310.0]


@given(st.floats(0.01, 10.0), st.floats(0.001, 10.0), st.integers(2, 400))
def test_a_child_that_never_delivers_costs_at_most_a_tenth_of_the_time_after_its_first_misses(wait_s, round_s, rounds):
    book, first_s, wasted_s = Book(), 0.0, 0.0
    for _ in range(rounds):
        if book.is_due(1):
            book.probed(1)
            book.answered(1)  # it announces whatever it is asked for
        if not book.is_left_out(1):
            wasted_s, book.now_s = wasted_s + wait_s, book.now_s + wait_s
            book.missed(1, "withheld", "update", cost_s=wait_s)
            first_s = first_s or (book.now_s if book.is_left_out(1) else 0.0)
        book.now_s += round_s
    assert wasted_s <= 2.0 * wait_s + 0.1 * (book.now_s - first_s)


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (2, 1), (3, 2), (9, 5), (1000, 500)])
def test_a_quorum_is_half_of_the_children_unless_set(count, wanted):
    assert Book().quorum_of(count) == wanted


@pytest.mark.parametrize(("resumed", "begins_s"), [(True, 5.0), (False, 60.0)])
def test_a_run_that_goes_on_begins_with_a_quorum_once_nobody_comes_or_goes_for_a_while(resumed, begins_s):
    book, there = Book(), {0.0: 1, 2.0: 3, 3.0: 2}
    opening = Opening(
        book.kept,
        TimingSettings(gather_s=60.0, settle_s=2.0),
        there=lambda: there[max(at_s for at_s in there if at_s <= book.now_s)],
        expected=lambda: 4,
        resumed=lambda: resumed,
    )
    opening.start()
    while opening.is_early():
        book.now_s += 0.5
    assert book.now_s == begins_s


def test_whoever_is_complete_begins_at_once():
    book = Book()
    opening = Opening(book.kept, TimingSettings(), there=lambda: 4, expected=lambda: 4, resumed=lambda: False)
    assert not opening.is_early()


def test_whoever_gets_the_slot_of_one_that_was_left_out_is_not_left_out():
    book = Book()
    book.strike(1, "it lied")
    book.forget(1)
    assert not book.is_left_out(1)
    assert not book.left_out()


def test_the_usual_seconds_are_the_lower_median_of_all_peaks_however_they_come():
    draw, usual, peaks = np.random.default_rng(0), UsualSeconds(Patience()), {}
    for number, seconds in zip(draw.integers(0, 40, 500).tolist(), draw.choice([0.1, 0.2, 0.7], 500), strict=True):
        before = peaks.get(number, seconds)
        peaks[number] = max(seconds, before + 0.1 * (seconds - before))
        usual.add(number, seconds)
        assert usual.typical_s() == statistics.median_low(peaks.values())


def test_whoever_had_nobody_to_compute_begins_anew_once_a_question():
    book = Book()
    roll = RollCall(book.kept, "sketch", limit_s=120.0)
    roll.ask(0)
    book.now_s = 10.0
    assert roll.renew(0)
    book.now_s = 20.0
    assert not roll.renew(0)
    roll.lacks(0)
    roll.lacks(0)  # once a question
    assert book.told == [("missed", 0)]
    roll.restart()
    assert roll.renew(0)


def test_whoever_declines_what_it_has_announced_is_left_out_the_second_time_and_each_time_for_longer():
    book, pauses = Book(), []
    for _ in range(3):
        while not book.is_left_out(0):
            roll = RollCall(book.kept, "update", limit_s=120.0)
            roll.ask(0)
            roll.declined(0)
        since_s = book.now_s
        while not book.is_due(0):
            book.now_s += 0.125
        pauses.append(book.now_s - since_s)
        book.probed(0)
        book.answered(0, "sketch")  # which it does at once
    assert pauses[0] < pauses[1] < pauses[2]


def test_declining_is_forgotten_where_updates_come():
    book = Book()
    for _ in range(20):
        for declines in (True, False, False, False, False):
            roll = RollCall(book.kept, "update", limit_s=120.0)
            roll.ask(0)
            (roll.declined if declines else roll.heard)(0)
    assert not book.is_left_out(0)
