"""What an edge that lies can do to a cell: keep it from its sum. It learns nothing that it should not."""

import dataclasses
import itertools
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_cell import drawn, plain_sum, playing, refused, session_of

from hpfl.quorums import LARGEST_CELL
from hpfl.secrecy import ChannelLinks, Collector, Member, SecrecyError
from hpfl.secrecy.keys import public_bytes
from hpfl.secrecy.messages import MASK, SELF, SignedAdvert, parcel_bytes, read_advert
from hpfl.secrecy.session import Instance, Session

NOTHING = "nothing is revealed"
KEYS = ("seal", "open", "vouch", "verify")


def cell_of(people, slots):
    """A cell of which all have sent their keys."""
    cell = playing(people, session_of(slots), range(slots))
    for number, member in cell.members.items():
        cell.collector.add_advert(number, member.advert())
    return cell


def set_up(people, slots):
    """A cell of which all have sent their masked updates."""
    cell = playing(people, session_of(slots), range(slots))
    cell.set_up()
    words = drawn(cell.session, range(slots), 1)["update"]
    cell.masked["update"] = {number: member.masked("update", words[number]) for number, member in cell.members.items()}
    return cell


def with_keys(session, number, data, **other):
    """An advert with other keys, and the signature that it had."""
    signed = read_advert(session, number, data)
    advert = dataclasses.replace(signed.advert, **other)
    return SignedAdvert(advert, signed.signature, signed.certificate).encoded()


def lying_vote(member, instance, told):
    """The tags of a member that colludes, and vouches for any number of lists."""
    member._sums[instance].survivors = None
    return member.vote(instance, told)


def new_public_key():
    return ChannelLinks().public


# in the middle


def test_a_channel_key_of_an_edge_in_the_middle_is_refused(people):
    cell = cell_of(people, 4)
    adverts = cell.collector.adverts()
    forged = adverts | {2: with_keys(cell.session, 2, adverts[2], channel=new_public_key())}
    with refused(match="not signed by the key of its certificate"):
        cell.members[0].shares(forged)
    collector = Collector(cell.session, people.trust)
    with refused(match="member 2: its keys are not signed"):
        collector.add_advert(2, forged[2])


def test_another_members_advert_in_a_members_place_is_refused(people):
    cell = cell_of(people, 4)
    adverts = cell.collector.adverts()
    with refused(match="an advert of member 3 came as one of member 2"):
        cell.members[0].shares(adverts | {2: adverts[3]})
    signed = read_advert(cell.session, 3, adverts[3])
    renamed = SignedAdvert(dataclasses.replace(signed.advert, number=2), signed.signature, signed.certificate)
    with refused(match="the certificate of 'ue-3' came; wanted that of 'ue-2'"):
        cell.members[0].shares(adverts | {2: renamed.encoded()})


def test_a_member_whose_own_keys_were_changed_or_left_out_takes_no_part(people):
    cell = cell_of(people, 4)
    adverts = cell.collector.adverts()
    changed = with_keys(cell.session, 0, adverts[0], masks=(new_public_key(), new_public_key()))
    for told in (adverts | {0: changed}, {number: adverts[number] for number in (1, 2, 3)}):
        with refused(match="own advert is not among those that came"):
            cell.members[0].shares(told)


def test_who_is_told_mask_keys_of_the_edges_own_reveals_nothing_and_nobody_can_reveal_it(people):
    """Keys of one session are not signed: what stands for them is that no parcel opens between two stories."""
    slots, victim = 7, 0
    cell = cell_of(people, slots)
    adverts = cell.collector.adverts()
    own = {other: (new_public_key(), new_public_key()) for other in range(1, slots)}
    forged = {other: with_keys(cell.session, other, adverts[other], masks=own[other]) for other in own}
    for number, member in cell.members.items():
        told = adverts | forged if number == victim else adverts
        cell.parcels[number] = member.shares(told)
        cell.collector.add_shares(number, cell.parcels[number])
    for number, member in cell.members.items():
        member.receive(cell.collector.shares_for(number))
    assert cell.members[victim].unopened == set(own)
    assert all(cell.members[other].unopened == {victim} for other in own)
    words = drawn(cell.session, range(slots), 2)["update"]
    tags = {}
    for number, member in cell.members.items():
        member.masked("update", words[number])
        tags[number] = member.vote("update", range(slots))
    with refused(match=f"1 members (with this one) vouch for the survivors it knows; wanted 5: {NOTHING}"):
        cell.members[victim].reveal("update", {other: tags[other][victim] for other in own})
    for other in own:
        inbox = {voter: tags[voter][other] for voter in own if voter != other}
        data = cell.members[other].reveal("update", inbox)
        owners = {int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 37)}
        assert owners == set(own)


def test_two_stories_about_the_members_end_with_nobody_revealing_anything(people):
    """Of seven, three are told that the seventh has sent no shares."""
    cell = cell_of(people, 7)
    adverts = cell.collector.adverts()
    for number, member in cell.members.items():
        cell.collector.add_shares(number, member.shares(adverts))
    for number, member in cell.members.items():
        inbox = cell.collector.shares_for(number)
        if number in (0, 1, 2):
            inbox.pop(6)
        member.receive(inbox)
    words = drawn(cell.session, range(7), 3)["update"]
    tags = {}
    for number in range(6):
        cell.members[number].masked("update", words[number])
        tags[number] = cell.members[number].vote("update", range(6))
    for number in range(6):
        with refused(match=NOTHING):
            cell.members[number].reveal("update", {voter: tags[voter][number] for voter in tags if voter != number})


# who is in


def test_too_few_or_too_many_adverts_are_refused(people):
    adverts = cell_of(people, 9).collector.adverts()
    member = playing(people, session_of(9), range(9)).members[0]
    few = {number: adverts[number] for number in range(1, 6)} | {0: member.advert()}
    with refused(match="adverts of 6 members came; wanted 7 to 9"):
        member.shares(few)
    small = playing(people, session_of(4), range(4)).members[0]
    with refused(match="adverts of 9 members came; wanted 3 to 4"):
        small.shares(adverts | {0: small.advert()})
    collector = Collector(session_of(2), people.trust)
    for number in (0, 1):
        collector.add_advert(number, adverts[number])
    with refused(match="member 2 is one more than the 2 slots"):
        collector.add_advert(2, adverts[2])


def test_a_cell_beyond_the_largest_is_refused():
    one = (Instance("update", 3, 8),)
    assert Session(b"x", LARGEST_CELL, one).threshold == 683
    with refused(match="a cell has 1025 slots; wanted 2 to 1024"):
        Session(b"x", LARGEST_CELL + 1, one)
    with refused(match="a cell has 1 slots"):
        Session(b"x", 1, one)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([1, 2, 3, 4, 5, 6], "has masked no words that were summed"),
        ([0, 1, 2, 3], "survivors of 4 members came; wanted 5 to 7"),
        ([0, 1, 2, 3, 4, 9], "survivors came who sent no shares"),
        ([0, 1, 2, 3, 4, 4], "or came twice"),
    ],
)
def test_a_list_of_survivors_that_cannot_be_is_refused(people, told, reason):
    cell = set_up(people, 7)
    with refused(match=reason):
        cell.members[0].vote("update", told)


# two lists


def test_a_member_vouches_for_one_list_of_survivors(people):
    cell = set_up(people, 7)
    first = cell.members[0].vote("update", range(7))
    assert cell.members[0].vote("update", list(range(7))) == first
    with refused(match="another list of survivors came before; the edge tells two stories"):
        cell.members[0].vote("update", range(6))


@pytest.mark.parametrize("first", [set(one) for size in range(5) for one in itertools.combinations(range(4), size)])
def test_of_two_lists_one_is_uncovered_at_most_though_two_of_seven_collude(people, first):
    """Members 5 and 6 vouch for whatever the edge likes; of the honest five some are told that 4 has dropped out."""
    cell = set_up(people, 7)
    everybody, without = list(range(7)), [0, 1, 2, 3, 5, 6]
    told = {number: everybody if number in {*first, 4} else without for number in range(5)}
    tags = {number: cell.members[number].vote("update", told[number]) for number in told}
    for number in (5, 6):
        tags[number] = {other: lying_vote(cell.members[number], "update", told[other])[other] for other in range(5)}
    uncovered = set()
    for number in range(5):
        inbox = {voter: tags[voter][number] for voter in told[number] if number in tags[voter]}
        with suppress(SecrecyError):
            cell.members[number].reveal("update", inbox)
            uncovered.add(len(told[number]))
    assert uncovered == ({7} if len(first) >= 2 else {6})


def test_tags_of_another_sum_or_of_an_older_session_count_for_nothing(people):
    slots, session = 4, session_of(4)
    words = drawn(session, range(slots), 4)
    kept = {number: ChannelLinks() for number in range(slots)}

    def begun():
        cell = playing(people, session, range(slots))
        cell.members = {number: Member(session, people.members[number], people.trust, kept[number]) for number in kept}
        cell.set_up()
        tags = {}
        for name in ("sketch", "update"):
            for number, member in cell.members.items():
                member.masked(name, words[name][number])
                tags[number, name] = member.vote(name, range(slots))
        return cell, tags

    (_, old), (cell, new) = begun(), begun()
    for tags in (old, {(number, "update"): new[number, "sketch"] for number in range(slots)}):
        with refused(match=NOTHING):
            cell.members[0].reveal("update", {other: tags[other, "update"][0] for other in (1, 2, 3)})
    with refused(match="tags came from others than the survivors"):
        cell.members[0].reveal("update", {0: b"", 1: b"", 2: b""})
    assert cell.members[0].reveal("update", {other: new[other, "update"][0] for other in (1, 2, 3)})


# older sessions


def test_an_older_sessions_messages_open_nothing_in_one_of_the_same_context(people):
    """Even where an edge repeats a context, and members keep their links: own keys are fresh."""
    session = session_of(4)
    kept = {number: ChannelLinks() for number in range(4)}

    def begun():
        cell = playing(people, session, range(4))
        cell.members = {number: Member(session, people.members[number], people.trust, kept[number]) for number in kept}
        return cell

    old, new = begun(), begun()
    old.set_up()
    adverts = {number: member.advert() for number, member in old.members.items()}
    with refused(match="own advert is not among"):
        new.members[0].shares(adverts)
    sent = new.members[0].shares(adverts | {0: new.members[0].advert()})
    new.members[0].receive({other: old.parcels[other][0] for other in (1, 2, 3)})
    assert new.members[0].unopened == {1, 2, 3}
    assert all(sent[other] != old.parcels[0][other] for other in sent)
    links = [[getattr(cell.members[0]._channels[other], key) for other in sent for key in KEYS] for cell in (old, new)]
    assert len({*links[0], *links[1]}) == 2 * len(KEYS) * len(sent)  # no key is used in both, nor for two purposes


def test_a_session_of_another_context_cell_or_length_is_another_session(people):
    sessions = [
        session_of(4),
        session_of(4, context=b"round 2"),
        session_of(5),
        session_of(4, lengths=(3, 6)),
        session_of(4, bits=(40, 22)),
    ]
    assert len({one.digest for one in sessions}) == len(sessions)


def test_parcels_for_others_or_from_others_do_not_open(people):
    cell = cell_of(people, 5)
    adverts = cell.collector.adverts()
    parcels = {number: member.shares(adverts) for number, member in cell.members.items()}
    right = {sender: parcels[sender][0] for sender in range(1, 5)}
    swapped = right | {1: parcels[2][0], 2: parcels[1][0], 3: parcels[3][1]}
    cell.members[0].receive(swapped)
    assert cell.members[0].unopened == {1, 2, 3}


# both shares


def test_a_second_vector_under_one_mask_is_refused(people):
    cell = set_up(people, 4)
    other = cell.masked["update"][0] ^ np.uint64(1)
    with refused(match="two would show their difference"):
        cell.members[0].masked("update", other)


def test_nothing_is_revealed_before_the_words_are_masked(people):
    cell = playing(people, session_of(4), range(4))
    cell.set_up()
    with refused(match="has masked no words"):
        cell.members[0].vote("update", range(4))
    with refused(match="has vouched for no survivors yet"):
        cell.members[0].reveal("update", {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    orders=st.lists(
        st.tuples(st.sampled_from(("sketch", "update")), st.sets(st.integers(0, 6), min_size=4)), max_size=12
    )
)
def test_whatever_an_edge_asks_a_member_reveals_one_kind_of_share_of_each(people, orders):
    """All others collude: they vouch for each list that the edge thinks of."""
    cell = set_up(people, 7)
    words = drawn(cell.session, range(7), 1)["sketch"]
    for number, member in cell.members.items():
        member.masked("sketch", words[number])
    seen: dict[tuple[str, int], set[int]] = {}
    for name, told in orders:
        try:
            cell.members[0].vote(name, told)
            tags = {other: lying_vote(cell.members[other], name, told)[0] for other in told - {0}}
            data = cell.members[0].reveal(name, tags)
        except SecrecyError:
            continue
        for at in range(0, len(data), 37):
            owner, kind = int.from_bytes(data[at : at + 4], "little"), data[at + 4]
            seen.setdefault((name, owner), set()).add(kind)
            assert kind == (SELF if owner in told else MASK)
    assert all(len(kinds) == 1 for kinds in seen.values())


def test_a_key_that_agrees_on_nothing_secret_is_refused(people):
    """A key of low order, signed by a member that colludes."""
    cell = cell_of(people, 4)
    links = ChannelLinks()
    links.public = bytes(32)
    bad = Member(cell.session, people.members[2], people.trust, links).advert()
    with refused(match="the key of member 2 agrees on nothing secret"):
        cell.members[0].shares(cell.collector.adverts() | {2: bad})


def test_the_sum_is_exact_over_many_sessions_of_the_same_links(people):
    kept = {number: ChannelLinks() for number in range(5)}
    signatures = set()
    for context in (b"1", b"2", b"3"):
        session = session_of(5, context=context)
        cell = playing(people, session, range(5))
        cell.members = {number: Member(session, people.members[number], people.trust, kept[number]) for number in kept}
        cell.set_up()
        words = drawn(session, range(5), 8)["update"]
        left = lambda number, step: (number, step) == (4, "masked")  # noqa: E731
        assert cell.sum("update", words, left).tolist() == plain_sum(session.instances[1], words, range(4))
        signatures.add(read_advert(session, 0, cell.members[0].advert()).signature)
        assert len(cell.parcels[0][1]) == parcel_bytes(session)
    assert len(signatures) == 1
    assert public_bytes(kept[0]._key) == kept[0].public
