"""All that an edge saw goes as well with other updates of the same sum, and shows nothing that tells them apart.

The edge takes away every mask that it can make: from shares that were revealed, and from what members know that collude
with it. What is left of each update is hidden by masks between honest members; the first tests give, for other updates
of the same sum, masks that lead to exactly what the edge saw. As such masks are drawn uniformly, both are equally
likely. The others try to tell two worlds apart by statistics of all bytes, and can once a mask is left out.
"""

import numpy as np
import pytest
from eavesdropper import bared, known_seeds, pair_mask, transcript
from secret_cell import drawn, playing, session_of

from hpfl.secrecy import masks
from hpfl.secrecy.messages import MASK, SELF

LENGTH, BITS = 64, 16
RANGE = np.uint64(2**BITS - 1)


def played(people, slots, words, leaves=(), late=()):
    """A session as far as the sum "update"; the words of those in `late` come when they are dropped already."""
    session = session_of(slots, lengths=(3, LENGTH), bits=(40, BITS))
    cell = playing(people, session, range(slots))
    cell.set_up()
    left = lambda number, step: step == "masked" and number in {*leaves, *late}  # noqa: E731
    found = cell.sum("update", words, left)
    for number in late:
        cell.masked["update"][number] = cell.members[number].masked("update", words[number])
    return cell, found


def words_of(slots, seed):
    return drawn(session_of(slots, lengths=(3, LENGTH), bits=(40, BITS)), range(slots), seed)["update"]


@pytest.mark.parametrize(("leaves", "colluders"), [((), ()), ((1,), ()), ((), (4, 5)), ((1, 6), (4, 5))])
def test_other_updates_of_the_same_sum_explain_all_that_the_edge_saw(people, leaves, colluders):
    slots = 7
    words, other = words_of(slots, 1), words_of(slots, 2)
    cell, _ = played(people, slots, words, leaves)
    seeds = known_seeds(cell, "update", colluders)
    survivors = set(range(slots)) - set(leaves)
    honest = sorted(survivors - set(colluders))
    assert {owner for owner, kind in seeds if kind == SELF} == survivors
    assert {owner for owner, kind in seeds if kind == MASK} == set(leaves)
    seen = bared(cell, "update", seeds, colluders)
    for number in survivors & set(colluders):
        np.testing.assert_array_equal(seen[number], words[number])
    total = sum(words[number] for number in honest) & RANGE
    np.testing.assert_array_equal(sum(seen[number] for number in honest) & RANGE, total)

    pairs = {(u, v): pair_mask(cell, "update", u, v) for u in honest for v in honest if u < v}
    check_explained(seen, honest, words, pairs)
    world = {number: other[number] for number in honest}
    world[honest[0]] = (total - sum(other[number] for number in honest[1:])) & RANGE
    first = honest[0]  # has the smallest number: it adds its masks with others, and they subtract them
    moved = {(first, number): (pairs[first, number] + world[number] - words[number]) & RANGE for number in honest[1:]}
    check_explained(seen, honest, world, pairs | moved)


def check_explained(seen, honest, words, pairs):
    """These updates under these masks are what was seen, to the last bit."""
    for number in honest:
        plus = sum((pairs[number, other] for other in honest if number < other), np.zeros(LENGTH, np.uint64))
        minus = sum((pairs[other, number] for other in honest if other < number), np.zeros(LENGTH, np.uint64))
        np.testing.assert_array_equal(seen[number], (words[number] + plus - minus) & RANGE)


def test_updates_of_another_sum_do_not_explain_it(people):
    words = words_of(4, 1)
    cell, _ = played(people, 4, words)
    seen = bared(cell, "update", known_seeds(cell, "update"))
    other = words | {0: words[0] ^ np.uint64(1)}
    assert not np.array_equal(sum(seen.values()) & RANGE, sum(other.values()) & RANGE)


@pytest.mark.parametrize("colluders", [(), (5, 6)])
def test_words_that_come_too_late_stay_under_their_self_mask(people, colluders):
    """The edge has said that member 2 dropped out, and knows its masks with others, but too little of its self mask."""
    words = words_of(7, 3)
    cell, _ = played(people, 7, words, late=(2,))
    seeds = known_seeds(cell, "update", colluders)
    assert (2, MASK) in seeds
    assert (2, SELF) not in seeds
    seen = bared(cell, "update", seeds, colluders)
    own = cell.members[2]._sums["update"].self_seed
    uncovered = bared(cell, "update", seeds | {(2, SELF): own}, colluders)
    assert not np.array_equal(seen[2], words[2])
    np.testing.assert_array_equal(uncovered[2], words[2])  # which is why nobody reveals both


# telling two worlds apart

ROUNDS, SLOTS = 100, 4
SECRET = np.random.default_rng(0).integers(0, 2**BITS, LENGTH, np.uint64)


def worlds(people, late=()):
    """For each session what the edge knows, and which world it was: whether 0 or 1 has sent `SECRET`, the other 0."""
    draw, found, labels = np.random.default_rng(1), [], []
    for _ in range(ROUNDS):
        label = int(draw.integers(2))
        others = {number: draw.integers(0, 2**BITS, LENGTH, np.uint64) for number in (2, 3)}
        words = {label: SECRET, 1 - label: np.zeros(LENGTH, np.uint64)} | others
        cell, _ = played(people, SLOTS, dict(sorted(words.items())), late=late)
        seen = bared(cell, "update", known_seeds(cell, "update"))
        found.append((seen[0], seen[1], np.frombuffer(transcript(cell, "update")[:4096], np.uint8)))
        labels.append(label)
    return found, np.array(labels)


def share_right(found, labels):
    """How often a guess is right: learnt on one half of the sessions, by the nearer mean, and tried on the other."""
    features = np.array([signs(*one) for one in found])
    half = len(labels) // 2
    means = [features[:half][labels[:half] == label].mean(axis=0) for label in (0, 1)]
    gaps = [((features[half:] - mean) ** 2).sum(axis=1) for mean in means]
    return float(np.mean((gaps[1] < gaps[0]) == labels[half:]))


def signs(first, second, everything):
    """Statistics that would show an update: its agreement with `SECRET`, its bits, and all bytes that passed."""
    agreement = [np.mean(words == SECRET) + np.mean(words == 0) * -1.0 for words in (first, second)]
    bits = [np.unpackbits(words.astype("<u2").view(np.uint8)).mean() for words in (first, second)]
    return np.concatenate([10.0 * np.array(agreement), bits, [everything.mean() / 255.0, everything.std() / 255.0]])


CHANCE = 0.5 + 5 * 0.5 / np.sqrt(ROUNDS / 2)
"""Five standard deviations of guessing."""


def test_statistics_of_all_that_was_seen_tell_nothing(people):
    found, labels = worlds(people)
    assert 1.0 - CHANCE < share_right(found, labels) < CHANCE


def test_the_same_statistics_tell_all_where_masks_between_members_are_left_out(people, monkeypatch):
    monkeypatch.setattr("hpfl.secrecy.member.pair_masks", lambda *parts: ([], []))
    assert share_right(*worlds(people)) == 1.0


def test_statistics_of_late_words_tell_nothing_and_all_where_self_masks_are_left_out(people, monkeypatch):
    assert 1.0 - CHANCE < share_right(*worlds(people, late=(0,))) < CHANCE
    true = masks.add_masks
    monkeypatch.setattr("hpfl.secrecy.member.add_masks", lambda total, plus, minus: true(total, plus[:-1], minus))
    assert share_right(*worlds(people, late=(0,))) == 1.0


def test_masked_words_are_spread_evenly_whatever_is_under_them(people):
    """Chi-squared of bytes of masked zeros: 255 degrees of freedom, a mean of 255 and a deviation of 23."""
    session = session_of(3, lengths=(3, 20_000), bits=(40, 32))
    cell = playing(people, session, range(3))
    cell.set_up()
    for member in cell.members.values():
        counts = np.bincount(member.masked("update", np.zeros(20_000, np.uint64)).astype("<u4").view(np.uint8))
        expected = 80_000 / 256
        assert 140.0 < float(((counts - expected) ** 2 / expected).sum()) < 400.0
