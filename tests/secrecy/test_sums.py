"""A secure sum is the plain sum to the last integer, whoever leaves when, or fails by name."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_cell import STEPS, drawn, plain_sum, playing, refused, session_of, too_few

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
        ballot = cell.collector._sums["sketch"].ballot
        if one.name == "update" and ballot is not None and ballot.is_closed:  # masks are made among survivors then
            begun = frozenset(cell.revealed["sketch"])
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


@pytest.mark.parametrize("step", STEPS)
def test_after_votes_the_next_sum_is_of_those_who_have_uncovered_the_first_and_masked_among_its_survivors(people, step):
    """Nobody makes masks with who has left before: nothing of it has to be taken away."""
    session, others = session_of(7), [0, 1, 3, 4, 5, 6]
    words = drawn(session, range(7), 5)
    cell = playing(people, session, range(7))
    cell.set_up()
    early = cell.members[1].masked("update", words["update"][1])  # among all: masks with who leaves are taken back
    first = cell.sum("sketch", words["sketch"], lambda number, at: number == 2 and at == step)
    assert first.tolist() == plain_sum(session.instances[0], words["sketch"], others if step == "masked" else range(7))
    with refused(match="the masked words of member 2 are not due"):
        cell.collector.add_masked("update", 2, cell.members[2].masked("update", words["update"][2]))
    left = lambda number, at: (number == 2 and at == "masked") or (number == 4 and at == step)  # noqa: E731
    assert cell.members[1].is_masked_anew("update") == (step == "masked")
    total = cell.sum("update", words["update"], left)
    assert np.array_equal(cell.masked["update"][1], early) == (step != "masked")
    assert not cell.members[1].is_masked_anew("update")
    summed = [number for number in others if (number, step) != (4, "masked")]
    assert total.tolist() == plain_sum(session.instances[1], words["update"], summed)
    assert list(cell.collector._sums["update"].among) == (others if step == "masked" else list(range(7)))


def test_who_has_masked_among_survivors_vouches_for_nobody_else(people):
    """Else an edge could learn a sum of those alone who are in both lists, who may be fewer than the threshold."""
    session = session_of(7)
    words = drawn(session, range(7), 5)
    cell = playing(people, session, range(7))
    cell.set_up()
    cell.sum("sketch", words["sketch"], lambda number, step: number == 2 and step == "masked")
    cell.members[1].masked("update", words["update"][1])
    with refused(match="survivors came with whom this member has made no masks"):
        cell.members[1].vote("update", [0, 1, 2, 3, 4])
    cell.members[1].vote("update", [0, 1, 3, 4, 5])


def test_words_masked_before_the_first_sum_is_uncovered_and_after_it_are_not_mixed(people):
    session = session_of(4)
    words = drawn(session, range(4), 5)
    cell = playing(people, session, range(4))
    cell.set_up()
    early = cell.members[0].masked("update", words["update"][0])
    cell.collector.add_masked("update", 0, early)
    cell.sum("sketch", words["sketch"])
    with refused(match="the masked words of member 1 are not due"):
        cell.collector.add_masked("update", 1, cell.members[1].masked("update", words["update"][1]))


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
