"""From the sum of masked words to the sum: secrets put together from shares, checked, and their masks taken away."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from hpfl.secrecy.disputes import dispute
from hpfl.secrecy.keys import commitment, mask_key, pair_masks, public_bytes, self_mask
from hpfl.secrecy.masks import MaskedWords, add_masks
from hpfl.secrecy.messages import Advert
from hpfl.secrecy.secrecy_errors import WrongMaskError
from hpfl.secrecy.session import Instance, Session
from hpfl.secrecy.shamir import coefficients, combined
from hpfl.secrecy.words import WordArray

_AT_ONCE, _FEW = min(os.cpu_count() or 1, 8), 2**20
"""Threads that make masks which have to be taken away, and how many words of them one thread makes alone."""

Coefficients = Callable[[tuple[int, ...]], list[int]]


@dataclass(frozen=True)
class Revealed:
    """What is known of a sum's secrets: adverts of all members, and for each revealer's point its shares by owner."""

    session: Session
    instance: Instance
    adverts: Mapping[int, Advert]
    shares: Mapping[int, Mapping[int, bytes]]

    @cached_property
    def points(self) -> list[int]:
        """The points of those who have revealed anything."""
        return sorted(self.shares)

    @property
    def place(self) -> int:
        """Which of the session's sums it is."""
        return self.session.instances.index(self.instance)


def unmask(known: Revealed, total: MaskedWords, survivors: Collection[int], dropped: Collection[int]) -> WordArray:
    """The sum: self masks of survivors are taken away, and pair masks that wait for those who have dropped out."""
    digest, name = known.session.digest, known.instance.name
    at_points = cache(coefficients)
    seeds = {owner: _secret(known, owner, at_points) for owner in sorted({*survivors, *dropped})}
    _check(known, seeds, survivors)
    public = {number: known.adverts[number].masks[known.place] for number in survivors}
    words, count = total.copy(), len(survivors) + len(dropped) * len(public)

    def left_by(owners: Sequence[int]) -> MaskedWords:
        """What hides the sum because of some members: self masks of survivors, pair masks of those who have left."""
        found = np.zeros_like(words)
        add_masks(found, [], [self_mask(digest, name, one, seeds[one]) for one in owners if one in public])
        for owner in owners:
            if owner not in public:
                key = mask_key(digest, name, owner, seeds[owner])
                add_masks(found, *pair_masks(digest, name, owner, key, public))
        return found

    at_once = _AT_ONCE if count * words.size > _FEW else 1
    everybody = [*sorted(dropped), *sorted(survivors)]
    parts = [everybody[at::at_once] for at in range(at_once)]
    with ThreadPoolExecutor(at_once) as threads:  # keystreams and sums are made without Python's lock
        for found in threads.map(left_by, parts):
            words += found
    return words.astype(np.uint64) & np.uint64(2**known.instance.bits - 1)


def _secret(known: Revealed, owner: int, at_points: Coefficients) -> int:
    """The secret of an owner from the first t shares that were revealed of it."""
    points = tuple(point for point in known.points if owner in known.shares[point])[: known.session.threshold]
    if len(points) < known.session.threshold:
        found = f"{len(points)} shares of the secret of member {owner} could be opened"
        numbers = sorted(known.adverts)
        silent = [numbers[point - 1] for point, shares in known.shares.items() if owner not in shares]
        raise dispute(f"{found}; wanted {known.session.threshold}", {owner: silent}, known.session)
    return combined(at_points(points), [int.from_bytes(known.shares[point][owner], "little") for point in points])


def _check(known: Revealed, seeds: Mapping[int, int], survivors: Collection[int]) -> None:
    """Secrets must be those promised in the adverts: a hash of the self mask's seed, the public key of the masks."""
    digest, name, wrong = known.session.digest, known.instance.name, []
    for owner, seed in seeds.items():
        advert = known.adverts[owner]
        if owner in survivors:
            is_right = commitment(digest, name, owner, seed) == advert.promises[known.place]
        else:
            is_right = public_bytes(mask_key(digest, name, owner, seed)) == advert.masks[known.place]
        if not is_right:
            wrong.append(owner)
    if wrong:
        raise WrongMaskError(f"{name}: the shares of members {wrong} do not give what these had promised", wrong)
