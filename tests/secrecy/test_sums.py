"""A secure sum is the plain sum to the last integer, whoever leaves when, or fails by name."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_cell import drawn, plain_sum, playing, refused, session_of, too_few

from hpfl.secrecy import TooFewError


@pytest.mark.parametrize("slots", [2, 3, 4, 7, 12])
def test_the_sum_is_the_plain_sum_when_nobody_leaves(people, slots):
    session = session_of(slots)
    words = drawn(session, range(slots), slots)
    cell = playing(people, session, range(slots))
    cell.set_up()
    for one in session.instances:
        assert cell.sum(one.name, words[one.name]).tolist() == plain_sum(one, words[one.name], range(slots))


@pytest.mark.parametrize("slots", range(2, 200))
def test_fewer_than_a_third_may_leave_and_fewer_than_a_third_may_collude(slots):
    threshold = session_of(slots).threshold
    fewer_than_a_third = (slots - 1) // 3
    assert slots - threshold == fewer_than_a_third
    assert 2 * threshold > slots + fewer_than_a_third  # Bonawitz et al. 2017, Theorem 6.5


SETUP, SUMS = ("advert", "shares", "receive"), ("masked", "vote", "reveal")
EVERY = [*SETUP, *((name, step) for name in ("sketch", "update") for step in SUMS)]
SAID = {
    "advert": "sent keys",
    "shares": "sent shares",
    "masked": "sent masked words of {}",
    "vote": "vouched for the survivors of {}",
    "reveal": "revealed shares of {}",
}


@settings(
    max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(slots=st.integers(2, 7), seed=st.integers(0, 2**32), data=st.data())
def test_sums_are_exact_whoever_leaves_before_whichever_step(people, slots, seed, data):
    numbers = sorted(data.draw(st.permutations(range(14)))[:slots])
    likely = st.lists(st.tuples(st.sampled_from(numbers), st.sampled_from(EVERY)), max_size=slots)
    missed = set(data.draw(likely))
    session = session_of(slots)
    words = drawn(session, numbers, seed)
    cell = playing(people, session, numbers)
    there = set(numbers)

    def go_on(step, instance=""):
        """Who takes a step: those that took the ones before and do not leave now; False if they are too few."""
        there.difference_update({number for number, at in missed if at == ((instance, step) if instance else step)})
        return step == "receive" or len(there) >= session.threshold

    for step in SETUP:
        if not go_on(step):
            with too_few(SAID[step]):
                cell.set_up(lambda number, at: (number, at) in missed)
            return
    cell.set_up(lambda number, at: (number, at) in missed)
    if data.draw(st.booleans()):  # sums of all members are uncovered without votes
        cell.vouch(lambda number, at: (number, at) in missed)
    begun = frozenset(there)
    for one in session.instances:
        there = set(begun)
        missing = next((step for step in SUMS if not go_on(step, one.name)), None)
        present = {number: words[one.name][number] for number in begun}
        leaves = lambda number, at, name=one.name: (number, (name, at)) in missed  # noqa: E731
        if missing is not None and missing != "masked":
            with pytest.raises(TooFewError) as found:
                cell.sum(one.name, present, leaves)
            assert SAID["reveal" if cell.at_once[one.name] else missing].format(one.name) in str(found.value)
            continue
        if missing is not None:
            with too_few(SAID[missing].format(one.name)):
                cell.sum(one.name, present, leaves)
            continue
        survivors = [number for number in begun if not leaves(number, "masked")]
        try:
            total = cell.sum(one.name, present, leaves).tolist()
        except TooFewError:  # some of those who uncover without votes have left, and others have not learnt to
            assert len(there & set(cell.at_once[one.name])) < session.threshold <= len(cell.at_once[one.name])
            continue
        assert total == plain_sum(one, words[one.name], survivors)


def test_of_ten_three_may_leave_at_any_one_step_and_four_may_not(people):
    session = session_of(10)
    words = drawn(session, range(10), 0)["update"]
    for step in ("advert", "shares", "receive", "masked", "vote", "reveal"):
        for leaving in (3, 4):
            cell = playing(people, session, range(10))
            leaves = lambda number, at, step=step, leaving=leaving: at == step and number < leaving  # noqa: E731
            there = range(leaving if step in SETUP else 0, 10)
            if leaving == 4:
                with pytest.raises(TooFewError, match=r"6 members have .*; wanted 7"):
                    outcome(cell, words, there, leaves)
                continue
            summed = range(0 if step in ("vote", "reveal") else 3, 10)
            assert outcome(cell, words, there, leaves) == plain_sum(session.instances[1], words, summed)


def outcome(cell, words, there, leaves):
    cell.set_up(leaves)
    return cell.sum("update", {number: words[number] for number in there}, leaves).tolist()


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 16, 31, 32, 33, 63, 64])
def test_words_of_any_width_wrap_where_they_should(people, bits):
    session = session_of(4, lengths=(1, 70_000), bits=(8, bits))
    words = drawn(session, range(4), bits)["update"]
    words[0][:] = 2**bits - 1
    cell = playing(people, session, range(4))
    cell.set_up()
    found = cell.sum("update", words, lambda number, step: (number, step) == (3, "masked"))
    wanted = (words[0] + words[1] + words[2]) & np.uint64(2**bits - 1)
    np.testing.assert_array_equal(found, wanted)


def test_a_member_that_misses_one_sum_is_in_the_next(people):
    session = session_of(4)
    words = drawn(session, range(4), 5)
    cell = playing(people, session, range(4))
    cell.set_up()
    first = cell.sum("sketch", words["sketch"], lambda number, step: number == 2)
    assert first.tolist() == plain_sum(session.instances[0], words["sketch"], [0, 1, 3])
    assert cell.sum("update", words["update"]).tolist() == plain_sum(session.instances[1], words["update"], range(4))


def test_a_mask_made_ahead_is_the_mask(people):
    session = session_of(3)
    words = drawn(session, range(3), 6)
    cell = playing(people, session, range(3))
    cell.set_up()
    cell.members[1].prepare("update")
    cell.members[1].prepare("update")
    assert cell.sum("update", words["update"]).tolist() == plain_sum(session.instances[1], words["update"], range(3))
    with refused(match="masked already"):
        cell.members[1].prepare("update")
