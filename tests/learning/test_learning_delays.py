"""Codings that feed errors back delay: by how much, and what becomes of the kept error when the coding changes."""

import numpy as np
import pytest
import torch

from hpfl.learning import Draws, Uplink
from hpfl.learning.codecs.menu import ENTRIES, MENU, UNCHOSEN
from hpfl.learning.codecs.sparse import Sparse
from hpfl.learning.codecs.top_k import TopK
from hpfl.learning.coding import Travelling
from hpfl.learning.delays import delay
from hpfl.learning.uplink import UplinkStep
from hpfl.rng import Streams

N = 2000


def draws(number: int = 0) -> Draws:
    return Draws(Streams(3), number, np.zeros(1, np.int64), torch.device("cpu"), "test")


def cubes() -> torch.Tensor:
    return draws().normal(N).to(torch.float64) ** 3


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_the_delay_of_top_k_is_that_of_an_update_which_comes_again_and_again(share: float) -> None:
    """What is kept, along the update and over its square: so many rounds of it have not arrived yet."""
    chain, update = Uplink.of([("top-k", TopK(Sparse(share)))]), cubes()
    kept, held = torch.zeros(1, N, dtype=torch.float64), []
    for turn in range(1500):
        _, kept = chain.send(update, kept, draws())
        held += [float(kept[0] @ update[0])] if turn >= 500 else []
    found = np.mean(held) / float(update.square().sum())
    assert float(delay(chain, update, draws())[0]) == pytest.approx(found, rel=0.05, abs=0.02)


def test_all_numbers_come_at_once_and_so_does_what_is_not_fed_back() -> None:
    assert float(delay(Uplink.of([("top-k", TopK(Sparse(1.0)))]), cubes(), draws())[0]) == 0.0
    assert [float(delay(chain, cubes(), draws())[0]) > 0 for chain in MENU] == [chain.feeds_back for chain in MENU]


def test_a_step_that_does_not_know_its_delay_is_tried_once() -> None:
    class Half(UplinkStep):
        feeds_back = True

        def encode(self, numbers, kept, draws):  # type: ignore[no-untyped-def]
            return numbers, {}, kept

        def decode(self, numbers, side, n):  # type: ignore[no-untyped-def]
            return torch.where(torch.arange(n) % 2 == 0, numbers, 0.0)

    update = torch.ones(1, N, dtype=torch.float64)
    assert float(delay(Uplink.of([("half", Half())]), update, draws())[0]) == pytest.approx(1.0)


def test_fewer_numbers_come_later_and_the_menu_ends_with_the_fewest_bits() -> None:
    delays = [float(delay(chain, cubes(), draws())[0]) for chain in MENU if chain.feeds_back]
    assert delays == sorted(delays)
    bits = [chain.bits(79_510, 32) for chain in MENU]
    assert bits == sorted(bits, reverse=True)
    assert [name for name, _ in ENTRIES[UNCHOSEN]] == ["ternary"]


def test_the_kept_error_changes_hands_and_is_neither_lost_nor_sent_twice() -> None:
    """All entries in turn: with those that feed back, what has arrived and what is kept make up all that was sent."""
    travelling, kept, sent, arrived = Travelling(), torch.zeros(1, N), torch.zeros(1, N), torch.zeros(1, N)
    for number, chain in enumerate([*MENU, *MENU[::-1]]):
        update, before = draws(number).normal(N), kept
        came, kept = travelling.coded(chain, update, kept, draws(number))
        if chain.feeds_back:
            sent, arrived = sent + update, arrived + came
            assert not torch.equal(kept, before)
        else:
            assert torch.equal(kept, before)  # it waits until one comes that feeds back
    assert torch.allclose(arrived + kept, sent, atol=1e-4)
