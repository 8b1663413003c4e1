"""Sums that are uncovered without votes, by a list that stands: the plain sum, and one list for all whoever lies."""

import itertools
from contextlib import suppress

import pytest
from eavesdropper import known_seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_cell import drawn, plain_sum, playing, refused, session_of
from test_hostile_edge import cell_of, lying_vote

from hpfl.secrecy import MEMBERS, SecrecyError
from hpfl.secrecy.messages import MASK, SELF

SLOTS, COLLUDERS = 7, (5, 6)
HONEST = [number for number in range(SLOTS) if number not in COLLUDERS]
SUMS = ("sketch", "update")


def begun(people, slots=SLOTS):
    """A cell whose members all know one another, and words of theirs."""
    session = session_of(slots)
    cell = playing(people, session, range(slots))
    cell.set_up()
    cell.vouch()
    return cell, drawn(session, range(slots), slots)


@pytest.mark.parametrize("slots", [2, 3, 4, 7, 12])
def test_nobody_votes_where_nobody_leaves_and_the_sum_is_the_plain_sum(people, slots):
    cell, words = begun(people, slots)
    for one in cell.session.instances:
        assert cell.sum(one.name, words[one.name]).tolist() == plain_sum(one, words[one.name], range(slots))
        assert cell.collector._sums[one.name].ballot.votes == {}


@pytest.mark.parametrize("leaves", ["sketch", "update"])
def test_votes_are_taken_once_where_somebody_has_left(people, leaves):
    """Who leaves before the sketch is known to have left when the update is summed: the list of the sketch stands."""
    cell, words = begun(people)
    gone = {name: {3} if name >= leaves else set() for name in SUMS}
    for one in cell.session.instances:
        left = lambda number, step, name=one.name: step == "masked" and number in gone[name]  # noqa: E731
        rest = [number for number in range(SLOTS) if number not in gone[one.name]]
        assert cell.sum(one.name, words[one.name], left).tolist() == plain_sum(one, words[one.name], rest)
    assert [bool(cell.collector._sums[name].ballot.votes) for name in SUMS] == [leaves == name for name in SUMS]


@pytest.mark.parametrize("told", [set(one) for size in range(6) for one in itertools.combinations(HONEST, size)])
def test_of_two_lists_of_members_one_stands_at_most_though_two_of_seven_collude(people, told):
    """Members 5 and 6 vouch for whatever the edge likes; of the honest five some are told that 6 has sent no shares."""
    cell = cell_of(people, SLOTS)
    adverts = cell.collector.adverts()
    for number, member in cell.members.items():
        cell.collector.add_shares(number, member.shares(adverts))
    for number, member in cell.members.items():
        inbox = cell.collector.shares_for(number)
        if number in told:
            inbox.pop(6)
        member.receive(inbox)
    tags = {number: cell.members[number].standing.vouch() for number in HONEST}
    standing = set()
    for number in HONEST:
        member = cell.members[number]
        inbox = {other: tags[other][number] for other in HONEST if other != number}
        for one in {5, 6} & member._members:
            inbox[one] = cell.members[one]._vouching.tags(MEMBERS, member._members, member._members)[number]
        with suppress(SecrecyError):
            member.standing.believe(inbox)
            standing.add(member.standing.members)
    assert {len(one) for one in standing} == ({7} if len(told) <= 2 else {6} if len(told) >= 4 else set())


def test_a_list_that_does_not_stand_is_not_uncovered_at_once(people):
    cell, words = begun(people)
    member, other = cell.members[0], cell.members[1]
    with refused(match="has masked no words that were summed, and reveals nothing"):
        member.reveal_standing("update", range(SLOTS))
    for one in (member, other):
        one.masked("update", words["update"][one.number])
    for told in (range(6), [*range(SLOTS), 0], [0, 1, 2, 3, 4, 5, 9]):
        with refused(match="survivors came whom nobody has vouched for; nothing is revealed"):
            member.reveal_standing("update", told)
    member.reveal_standing("update", range(SLOTS))
    with refused(match="another list of survivors came before; the edge tells two stories"):
        member.vote("update", range(6))
    other.vote("update", range(6))
    with refused(match="another list of survivors came before; the edge tells two stories"):
        other.reveal_standing("update", range(SLOTS))


EVERYBODY = frozenset(range(SLOTS))
FEWER = [EVERYBODY - set(out) for count in (1, 2) for out in itertools.combinations(range(SLOTS), count)]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_an_edge_tells_whom_it_learns_by_one_list_alone(people, data):
    """Members 5 and 6 vouch for anything and give all they hold; each honest one is told what the edge likes.

    In each sum an honest member's mask falls by its self mask's seed, or by its mask key for a list that it is not on,
    never by both; and where all honest masks fall, those of one list with t members on it are left in the sum.
    """
    cell, words = begun(people)
    lists = st.sampled_from([EVERYBODY, *data.draw(st.lists(st.sampled_from(FEWER), min_size=1, max_size=2))])
    for name in SUMS:
        cell.revealed[name] = dict.fromkeys(HONEST, b"")
        for number, member in cell.members.items():
            member.masked(name, words[name][number])
        order, at_once = data.draw(st.permutations(HONEST)), data.draw(lists)
        for number in order[: data.draw(st.integers(0, len(HONEST)))]:
            with suppress(SecrecyError):
                cell.revealed[name][number] += cell.members[number].reveal_standing(name, at_once)
        one, other, order = data.draw(lists), data.draw(lists), data.draw(st.permutations(HONEST))
        first = order[: data.draw(st.integers(0, len(HONEST)))]
        told, tags = {number: one if number in first else other for number in HONEST}, {}
        for number in order:
            with suppress(SecrecyError):
                tags[number] = cell.members[number].vote(name, told[number])
        for number in tags:
            inbox = {other: tags[other][number] for other in tags if number in tags[other] and other in told[number]}
            for liar in set(COLLUDERS) & told[number]:
                inbox[liar] = lying_vote(cell.members[liar], name, told[number])[number]
            with suppress(SecrecyError):
                cell.revealed[name][number] += cell.members[number].reveal(name, inbox)
    for name in SUMS:
        seeds = known_seeds(cell, name, COLLUDERS).keys()
        by_self = {number for number in HONEST if (number, SELF) in seeds}
        by_key = {number for number in HONEST if (number, MASK) in seeds}
        assert not by_self & by_key
        if by_self | by_key == set(HONEST):
            assert len(by_self) + len(COLLUDERS) >= cell.session.threshold
