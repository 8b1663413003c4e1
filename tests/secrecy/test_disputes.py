"""Who is at fault where members complain about each other: nobody honest, and whoever spoils much."""

from hypothesis import given
from hypothesis import strategies as st
from secret_cell import session_of

from hpfl.secrecy import DisputedError, WrongMaskError, dispute
from hpfl.secrecy.disputes import at_fault


@given(st.data())
def test_no_honest_member_is_at_fault_whatever_fewer_than_a_third_say_and_send(data):
    slots = data.draw(st.integers(2, 30))
    colluding = data.draw(st.sets(st.integers(0, slots - 1), max_size=(slots - 1) // 3))
    pairs = st.tuples(st.integers(0, slots - 1), st.integers(0, slots - 1))
    said = data.draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=60))
    complaints = {}
    for by, number in said:
        if by in colluding or number in colluding:  # the honest do not complain about each other
            complaints.setdefault(number, set()).add(by)
    assert at_fault(complaints, session_of(slots)) <= colluding


def test_one_word_against_another_ends_in_a_dispute_of_both():
    for slots in (2, 3, 4, 10):
        error = dispute("why", {0: [1]}, session_of(slots))
        assert (type(error), error.members) == (DisputedError, (0, 1))


def test_who_spoils_much_is_at_fault_by_the_word_of_more_than_may_collude():
    session = session_of(10)
    accused = dispute("why", {7: [0, 1, 2, 3]}, session)
    accuser = dispute("why", {0: [7], 1: [7], 2: [7], 3: [7]}, session)
    assert {type(accused), type(accuser)} == {WrongMaskError}
    assert accused.members == accuser.members == (7,)
    assert type(dispute("why", {7: [0, 1, 2]}, session)) is DisputedError
