"""What an edge, and members that collude with it, can work out of all they saw of one sum."""

from collections.abc import Collection

import numpy as np
from secret_cell import Playing

from hpfl.secrecy.keys import mask_key, pair_masks, self_mask
from hpfl.secrecy.masks import add_masks, word_type
from hpfl.secrecy.messages import MASK, SELF, read_advert
from hpfl.secrecy.shamir import coefficients, combined


def transcript(cell: Playing, instance: str) -> bytes:
    """All bytes that passed the edge in a session, as far as this sum."""
    adverts = [member.advert() for member in cell.members.values()]
    parcels = [parcel for sent in cell.parcels.values() for parcel in sent.values()]
    masked = [words.tobytes() for words in cell.masked[instance].values()]
    votes = [tag for tags in cell.collector._sums[instance].ballot.votes.values() for tag in tags.values()]
    return b"".join([*adverts, *parcels, *masked, *votes, *cell.revealed[instance].values()])


def known_seeds(cell: Playing, instance: str, colluders: Collection[int] = ()) -> dict[tuple[int, int], int]:
    """Secrets (owner, kind) that the revealed shares and those of colluders give, where they are enough."""
    at = 2 * [one.name for one in cell.session.instances].index(instance)
    points = {number: place + 1 for place, number in enumerate(sorted(cell.members))}
    shares: dict[tuple[int, int], dict[int, int]] = {}
    for number, data in cell.revealed[instance].items():
        for start in range(0, len(data), 37):
            owner, kind = int.from_bytes(data[start : start + 4], "little"), data[start + 4]
            share = int.from_bytes(data[start + 5 : start + 37], "little")
            shares.setdefault((owner, kind), {})[points[number]] = share
    for number in colluders:
        for owner, held in cell.members[number]._held.items():
            for kind in (SELF, MASK):
                share = int.from_bytes(held[at + kind], "little")
                shares.setdefault((owner, kind), {})[points[number]] = share
    enough = {secret: held for secret, held in shares.items() if len(held) >= cell.session.threshold}
    return {secret: combined(coefficients(list(held)), list(held.values())) for secret, held in enough.items()}


def bared(cell: Playing, instance: str, seeds, colluders: Collection[int] = ()) -> dict[int, np.ndarray]:
    """Each sender's masked words without the masks that the edge can make from secrets it knows."""
    digest, place = cell.session.digest, [one.name for one in cell.session.instances].index(instance)
    one = cell.session.instances[place]
    public = {
        n: read_advert(cell.session, n, member.advert()).advert.masks[place] for n, member in cell.members.items()
    }
    seeds = dict(seeds) | {(n, MASK): cell.members[n]._sums[instance].mask_seed for n in colluders}
    found = {}
    for number, words in cell.masked[instance].items():
        left = words.astype(word_type(one.bits))
        if (number, SELF) in seeds:
            add_masks(left, [], [self_mask(digest, instance, number, seeds[number, SELF])])
        for other in public:
            if other != number:
                add_masks(left, *taken_away(digest, instance, (number, other), seeds, public))
        found[number] = left.astype(np.uint64) & np.uint64(2**one.bits - 1)
    return found


def taken_away(digest, instance, ends, seeds, public):
    """Keystreams that take the mask of a pair away from its first end; none where neither end's key is known."""
    number, other = ends
    if (other, MASK) in seeds:
        own = mask_key(digest, instance, other, seeds[other, MASK])
        return pair_masks(digest, instance, other, own, {number: public[number]})
    if (number, MASK) in seeds:
        own = mask_key(digest, instance, number, seeds[number, MASK])
        plus, minus = pair_masks(digest, instance, number, own, {other: public[other]})
        return minus, plus
    return [], []


def pair_mask(cell: Playing, instance: str, number: int, other: int) -> np.ndarray:
    """The mask between two members, as both of them know it and nobody else does."""
    place = [one.name for one in cell.session.instances].index(instance)
    one, digest = cell.session.instances[place], cell.session.digest
    public = read_advert(cell.session, other, cell.members[other].advert()).advert.masks[place]
    own = mask_key(digest, instance, number, cell.members[number]._sums[instance].mask_seed)
    total = np.zeros(one.length, word_type(one.bits))
    add_masks(total, *pair_masks(digest, instance, number, own, {other: public}))
    return total.astype(np.uint64) & np.uint64(2**one.bits - 1)
