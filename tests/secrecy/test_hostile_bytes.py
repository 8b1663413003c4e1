"""Bytes of any kind are read or refused with a `SecrecyError`: nothing else happens, and nothing is half taken in."""

import copy
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_cell import drawn, plain_sum, playing, refused, session_of

from hpfl.secrecy import Instance, Member, SecrecyError, Session, unpacked
from hpfl.secrecy.messages import read_advert, read_revealed, split_parcel

SLOTS = 4
FUZZ = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4)
KEPT = st.sampled_from([None, None, 0, 1, 4, 35, 36, 37, 100, 160, -1, -2])
SPOILT = st.one_of(st.binary(max_size=600), st.tuples(CHANGES, KEPT, st.binary(max_size=5)))
"""Any bytes, or how the right ones are changed: some replaced, some cut off, some added."""


def spoilt(how, whole):
    """Bytes as a draw of `SPOILT` says."""
    if isinstance(how, bytes):
        return how
    data = bytearray(whole)
    for at, value in how[0]:
        data[at % len(whole)] = value
    return bytes(data[: how[1]]) + how[2]


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")  # odd certificates
@FUZZ
@given(how=SPOILT)
def test_an_advert_of_any_bytes_is_refused_unless_it_is_signed(people, how):
    session = session_of(SLOTS)
    cell = playing(people, session, range(SLOTS))
    adverts = {number: member.advert() for number, member in cell.members.items()}
    bad = spoilt(how, adverts[1])
    with suppress(SecrecyError):
        assert read_advert(session, 1, bad).encoded() == bad
    with suppress(SecrecyError):
        cell.collector.add_advert(1, bad)
        signed, true = (read_advert(session, 1, one) for one in (bad, adverts[1]))
        assert signed.advert.channel == true.advert.channel
    with suppress(SecrecyError):
        cell.members[0].shares(adverts | {1: bad})


@FUZZ
@given(how=SPOILT)
def test_parcels_of_any_bytes_are_refused_or_do_not_open(people, how):
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    for number, member in cell.members.items():
        cell.collector.add_advert(number, member.advert())
    adverts = cell.collector.adverts()
    parcels = {number: member.shares(adverts) for number, member in cell.members.items()}
    bad = spoilt(how, parcels[1][0])
    with suppress(SecrecyError):
        cell.collector.add_shares(1, parcels[1] | {0: bad})
        prints, sealed = split_parcel(cell.session, 1, bad)
        assert b"".join(prints) + sealed == bad
    with suppress(SecrecyError):
        cell.members[0].receive({1: bad, 2: parcels[2][0], 3: parcels[3][0]})
        assert (cell.members[0].unopened == {1}) == (bad != parcels[1][0])


@FUZZ
@given(tag=SPOILT, how=SPOILT)
def test_tags_and_revealed_shares_of_any_bytes_spoil_no_sum(people, tag, how):
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    cell.set_up()
    words = drawn(cell.session, range(SLOTS), 9)["sketch"]
    edge, survivors = cell.collector, list(range(SLOTS))
    for number, member in cell.members.items():
        edge.add_masked("sketch", number, member.masked("sketch", words[number]))
    edge.survivors("sketch")
    votes = {number: member.vote("sketch", survivors) for number, member in cell.members.items()}
    with suppress(SecrecyError):
        edge.add_votes("sketch", 1, votes[1] | {0: spoilt(tag, votes[1][0])})
        assert votes.pop(1)
    for number, tags in votes.items():
        edge.add_votes("sketch", number, tags)
    revealed = {}
    for number, member in cell.members.items():
        with suppress(SecrecyError):
            revealed[number] = member.reveal("sketch", edge.votes_for("sketch", number))
    bad = spoilt(how, revealed[1])
    with suppress(SecrecyError):
        read_revealed(1, bad, dict.fromkeys(range(SLOTS), 0))
    with suppress(SecrecyError):
        edge.add_revealed("sketch", 1, bad)
        entries = {bad[at : at + 37] for at in range(0, len(bad), 37)}
        assert all(entry in revealed[1] for entry in entries if entry[0] != 1)  # a lie about its own share ends the sum
    for number in (0, 2, 3):
        with suppress(SecrecyError):
            edge.add_revealed("sketch", number, revealed[number])
    with suppress(SecrecyError):
        assert edge.sum("sketch").tolist() == plain_sum(cell.session.instances[0], words, survivors)


@FUZZ
@given(tags=st.dictionaries(st.integers(-1, 5), st.binary(max_size=40)), told=st.lists(st.integers(-1, 5), max_size=6))
def test_lists_and_tags_of_any_kind_reveal_nothing(people, tags, told):
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    cell.set_up()
    cell.members[0].masked("update", np.zeros(5, np.uint64))
    with suppress(SecrecyError):
        cell.members[0].vote("update", told)
        assert set(told) <= set(range(SLOTS))
        assert cell.members[0].reveal("update", tags) is None


@FUZZ
@given(data=st.binary(max_size=60), length=st.integers(-2, 40), bits=st.integers(-1, 66))
def test_words_of_any_bytes_are_refused_or_read(data, length, bits):
    with suppress(SecrecyError):
        words = unpacked(data, length, bits)
        assert words.shape == (length,)
        assert length == 0 or int(words.max()) < 2**bits


@FUZZ
@given(
    context=st.binary(max_size=5),
    slots=st.integers(-3, 1100),
    name=st.text("aé", max_size=70),
    bits=st.integers(-1, 70),
)
def test_a_session_of_any_kind_is_refused_or_stands(context, slots, name, bits):
    with suppress(SecrecyError):
        session = Session(context, slots, (Instance(name, 3, bits),))
        assert 2 * session.threshold > session.slots
        assert len(session.digest) == 32


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_members_number_has_bounds(people, number):
    one = copy.copy(people.members[0])
    one.number = number
    with refused(match=f"has the number {number}; wanted 0 to {2**32 - 1}"):
        Member(session_of(SLOTS), one, people.trust)


def test_a_certificate_of_a_version_that_does_not_exist_is_refused(people):
    session = session_of(SLOTS)
    cell = playing(people, session, range(SLOTS))
    advert = cell.members[1].advert()
    place = advert.index(bytes([0xA0, 0x03, 0x02, 0x01, 0x02])) + 4  # [0] { INTEGER 2 }, as X.509 writes version 3
    with pytest.raises(SecrecyError, match="not issued by an authority"):
        cell.collector.add_advert(1, advert[:place] + b"@" + advert[place + 1 :])
