"""What a member that lies can do: be left out, or end the sum by name. No sum is ever silently wrong for it."""

import pytest
from secret_cell import drawn, plain_sum, playing, refused, session_of

from hpfl.secrecy import Collector, Member, WrongMaskError
from hpfl.secrecy.messages import read_revealed, revealed
from hpfl.secrecy.parcels import make_parcels, shares_of
from hpfl.secrecy.shamir import FIELD, new_secret

SLOTS = 5


def with_parcels_of(people, lie):
    """A cell in which member 0 sends parcels that `lie(its member, true parcels)` makes."""
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    honest = cell.members[0].shares
    cell.members[0].shares = lambda adverts: lie(cell.members[0], honest(adverts))
    cell.set_up()
    return cell, drawn(cell.session, range(SLOTS), 3)["update"]


def of_other_secrets(place):
    """Well-formed shares, prints and seals of a secret that is not what the advert promises."""

    def lie(member, parcels):
        secrets = [seed for one in member._sums.values() for seed in one.seeds()]
        secrets[place] = new_secret()
        shares = shares_of(member._session, secrets, range(SLOTS))
        member._held = {0: shares[0]}
        return make_parcels(member._session, 0, shares, member._channels, member._adverts_digest)

    return lie


def without_0(number, step):
    return (number, step) == (0, "masked")


@pytest.mark.parametrize(("place", "leaves"), [(2, False), (3, True)])
def test_shares_of_another_secret_than_promised_end_the_sum_and_name_their_owner(people, place, leaves):
    cell, words = with_parcels_of(people, of_other_secrets(place))
    with refused(WrongMaskError, match="update: the shares of members [0] do not give what these had promised"):
        cell.sum("update", words, without_0 if leaves else lambda number, step: False)


@pytest.mark.parametrize(("place", "leaves"), [(3, False), (2, True), (0, False), (1, True)])
def test_a_secret_that_is_not_uncovered_may_be_any(people, place, leaves):
    """A self mask's of one who drops out, a mask key's of one who does not, and those of another sum."""
    cell, words = with_parcels_of(people, of_other_secrets(place))
    summed = range(1 if leaves else 0, SLOTS)
    left = without_0 if leaves else lambda number, step: False
    assert cell.sum("update", words, left).tolist() == plain_sum(cell.session.instances[1], words, summed)


def test_garbage_in_place_of_shares_ends_the_sum_and_names_their_owner(people):
    cell, words = with_parcels_of(people, lambda member, parcels: {n: bytes(len(p)) for n, p in parcels.items()})
    assert all(cell.members[number].unopened == {0} for number in range(1, SLOTS))
    with refused(WrongMaskError, match="1 shares of the secret of member 0 could be opened; wanted 4"):
        cell.sum("update", words)


def test_garbage_for_one_member_changes_nothing(people):
    cell, words = with_parcels_of(people, lambda member, parcels: parcels | {2: bytes(len(parcels[2]))})
    assert cell.members[2].unopened == {0}
    assert cell.sum("update", words).tolist() == plain_sum(cell.session.instances[1], words, range(SLOTS))


def test_prints_that_are_not_of_the_shares_are_garbage(people):
    def lie(member, parcels):
        """Seals of the right shares, bound to prints of others."""
        secrets = [seed for one in member._sums.values() for seed in one.seeds()]
        true = shares_of(member._session, secrets, range(SLOTS))
        link, digest = member._channels[2], member._adverts_digest
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hpfl.secrecy.parcels.share_prints", lambda *parts: [bytes(16)] * len(parts[-1]))
            return parcels | make_parcels(member._session, 0, true, {2: link}, digest)

    cell, _ = with_parcels_of(people, lie)
    assert cell.members[2].unopened == {0}


def played_to_the_reveal(people):
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    cell.set_up()
    words = drawn(cell.session, range(SLOTS), 6)["update"]
    for number in range(1, SLOTS):
        cell.collector.add_masked("update", number, cell.members[number].masked("update", words[number]))
    survivors = cell.collector.survivors("update")
    for number in survivors:
        cell.collector.add_votes("update", number, cell.members[number].vote("update", survivors))
    data = {n: cell.members[n].reveal("update", cell.collector.votes_for("update", n)) for n in survivors}
    return cell, words, data


@pytest.mark.parametrize("owner", [0, 2])
def test_a_changed_share_is_found_where_it_is_revealed_and_names_the_liar(people, owner):
    cell, words, data = played_to_the_reveal(people)
    kinds = {number: int(number == 0) for number in range(SLOTS)}
    shares = read_revealed(1, data[1], kinds)
    changed = {number: (kinds[number], share) for number, share in shares.items()}
    wrong = (int.from_bytes(shares[owner], "little") + 1) % FIELD
    changed[owner] = (kinds[owner], wrong.to_bytes(32, "little"))
    with refused(match=f"member 1 has revealed another share of {owner} than it was given"):
        cell.collector.add_revealed("update", 1, revealed(changed))
    cell.collector.add_revealed("update", 1, data[1])  # nothing of the refused message has stayed
    for number in range(2, SLOTS):
        cell.collector.add_revealed("update", number, data[number])
    assert cell.collector.sum("update").tolist() == plain_sum(cell.session.instances[1], words, range(1, SLOTS))


def test_shares_that_are_not_due_are_refused(people):
    cell, _, data = played_to_the_reveal(people)
    first = data[1][:37]
    other_kind = first[:4] + bytes([1 - first[4]]) + first[5:]
    beyond = first[:5] + FIELD.to_bytes(32, "little")
    stranger = (9).to_bytes(4, "little") + first[4:]
    for bad, reason in (
        (other_kind, "a share of 0 that is not due"),
        (stranger, "a share of 9 that is not due"),
        (first + first, "a share of 0 that is not due"),
        (beyond, "a share of 0 beyond the field"),
        (first[:-1], "36 bytes of shares"),
        (data[1] + first, "222 bytes of shares"),
    ):
        with refused(match=reason):
            cell.collector.add_revealed("update", 1, bad)
    with refused(match="shares revealed by member 0 are not due"):
        cell.collector.add_revealed("update", 0, data[1])


def test_a_step_comes_once_and_when_it_is_due(people):
    cell = playing(people, session_of(SLOTS), range(SLOTS))
    edge, members = cell.collector, cell.members
    advert = members[0].advert()
    edge.add_advert(0, advert)
    with refused(match="late, or its second one"):
        edge.add_advert(0, advert)
    for number in range(1, SLOTS):
        edge.add_advert(number, members[number].advert())
    adverts = edge.adverts()
    with refused(match="late, or its second one"):
        edge.add_advert(7, advert)
    shares = members[0].shares(adverts)
    with refused(match="known already"):
        members[0].shares(adverts)
    with refused(match="masks are made when the shares of the others are there"):
        members[0].prepare("update")
    with refused(match="are not for exactly the others"):
        edge.add_shares(0, {number: shares[number] for number in (1, 2, 3)})
    with refused(match="a parcel of member 0 has 3 bytes; wanted 208"):
        edge.add_shares(0, shares | {1: b"abc"})
    edge.add_shares(0, shares)
    with refused(match="the shares of member 0 are not due"):
        edge.add_shares(0, shares)
    for number in range(1, SLOTS):
        edge.add_shares(number, members[number].shares(adverts))
    for number in edge.members():
        members[number].receive(edge.shares_for(number))
    with refused(match="for a second time"):
        members[0].receive(edge.shares_for(0))
    words = drawn(cell.session, range(SLOTS), 0)["update"]
    edge.add_masked("update", 0, members[0].masked("update", words[0]))
    with refused(match="the masked words of member 0 are not due"):
        edge.add_masked("update", 0, words[0])
    with refused(match="'other' is no sum of this session: sketch, update"):
        members[0].masked("other", words[0])


def test_one_name_in_two_seats_is_refused(people):
    session = session_of(4)
    names = {0: "ue-0", 1: "ue-1", 2: "ue-2", 3: "ue-2"}

    class Blind:
        """Trusts certificates whoever sits where."""

        def check(self, number, certificate, message, signature):
            return names[number]

    cell = playing(people, session, range(4))
    adverts = {number: member.advert() for number, member in cell.members.items()}
    edge = Collector(session, Blind())
    for number in (0, 1, 2):
        edge.add_advert(number, adverts[number])
    with refused(match="member 3 shows a certificate of 'ue-2', as another does"):
        edge.add_advert(3, adverts[3])
    member = Member(session, people.members[0], Blind())
    with refused(match="two members show certificates of one name"):
        member.shares(adverts | {0: member.advert()})
