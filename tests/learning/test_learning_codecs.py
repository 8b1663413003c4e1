"""Codecs: unbiased with the variance they foretell, errors fed back whole, bits counted are bits packed."""

from math import ceil, log2, sqrt

import numpy as np
import pytest
import torch
from torch import Tensor

from hpfl.learning import UPLINKS, Draws, LearningError, Uplink
from hpfl.learning.codecs.levels import Levels
from hpfl.learning.codecs.random_k import RandomK
from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.codecs.sparse import Sparse
from hpfl.learning.codecs.ternary import Ternary
from hpfl.learning.codecs.top_k import TopK, largest
from hpfl.rng import Streams

UNBIASED = {
    "ternary": Ternary(64),
    "2 bits": Rounding(2, 64),
    "4 bits": Rounding(4, 64),
    "8 bits": Rounding(8, 64),
    "random": RandomK(Sparse(0.1)),
}
LEVELS = {3: 1, 15: 7, 255: 127}
CHAINS = [
    ["rounding"],
    ["ternary"],
    ["top-k"],
    ["random-k"],
    ["top-k", "rounding"],
    ["top-k", "ternary"],
    ["random-k", "ternary"],
]


def chain(*names: str) -> Uplink:
    return Uplink.of((name, UPLINKS.get(name)()) for name in names)


def draws(ues: int | np.ndarray, key: int = 5) -> Draws:
    members = np.arange(ues) if isinstance(ues, int) else ues
    return Draws(Streams(3), key, members, torch.device("cpu"), "codec/ue")


def some(rows: int, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    made = torch.randn(rows, n, generator=torch.Generator().manual_seed(rows + n), dtype=torch.float64)
    return (made * torch.linspace(0.2, 3, n)).to(dtype)


@pytest.mark.parametrize("name", UNBIASED)
def test_an_unbiased_codec_is_right_on_average_with_the_variance_it_foretells(name: str) -> None:
    uplink, one, count = Uplink.of([(name, UNBIASED[name])]), some(1, 300), 4000
    arrived, _ = uplink.send(one.expand(count, -1), torch.zeros(count, 0), draws(count))
    foretold = float(uplink.variance(one, torch.zeros(1, 0), draws(1)))
    errors = (arrived - one).double()
    assert float(errors.square().sum(1).mean()) == pytest.approx(foretold, rel=0.05)
    deviation = errors.std(0) / sqrt(count)
    assert bool((errors.mean(0).abs() <= 5 * deviation + 1e-6).all())


@pytest.mark.parametrize("bucket", [16, 100, 512])
@pytest.mark.parametrize("count", LEVELS)
def test_the_variance_keeps_its_bound(count: int, bucket: int) -> None:
    L, levels = LEVELS[count], Levels(count, bucket)
    heavy = some(6, bucket) ** 3
    worst = torch.full((1, bucket), 0.5 / L)
    worst[0, 0] = 1.0
    for rows in (some(6, bucket), heavy, worst, torch.ones(1, bucket)):
        omega = levels.variance(rows) / rows.double().square().sum(1)
        assert float(omega.max()) <= min(bucket / (4 * L**2), sqrt(bucket) / L)


def test_a_gaussian_bucket_of_three_levels_has_a_variance_of_about_two() -> None:
    rows = torch.randn(50, 512, generator=torch.Generator().manual_seed(0))
    assert float((Ternary(512).variance(rows) / rows.double().square().sum(1)).mean()) == pytest.approx(1.5, abs=0.5)


def test_two_bits_have_four_levels_and_eight_have_no_more_error_than_a_level() -> None:
    rows = some(4, 1000)
    two = chain_of(Rounding(2, 1000)).send(rows, torch.zeros(4, 0), draws(4))[0]
    shares = (two / rows.abs().amax(1, keepdim=True)).unique()
    assert bool(torch.stack([(shares - level).abs() for level in (-1, -1 / 3, 1 / 3, 1)]).amin(0).max() < 1e-6)
    assert len(two[0].unique()) == 4
    eight = chain_of(Rounding(8, 1000)).send(rows, torch.zeros(4, 0), draws(4))[0]
    assert bool(((eight - rows).abs() <= rows.abs().amax(1, keepdim=True) / 127 * (1 + 1e-5)).all())


def chain_of(*steps: object) -> Uplink:
    return Uplink.of((str(place), step) for place, step in enumerate(steps))  # type: ignore[misc]


def test_zeros_stay_zeros_and_what_is_on_a_level_stays_there() -> None:
    rows = torch.tensor([[0.0, 0, 0, 0], [0.0, 2, -2, 0], [1.0, 0, -1, 1]])
    for step in (Ternary(2), Ternary(4), Rounding(4, 4), RandomK(Sparse(1.0)), TopK(Sparse(1.0))):
        uplink = chain_of(step)
        assert torch.equal(uplink.send(rows, torch.zeros(3, uplink.numbers_kept(4)), draws(3))[0], rows)


@pytest.mark.parametrize("names", CHAINS)
@pytest.mark.parametrize("n", [1, 4, 511, 1300])
def test_simulator_and_wire_agree_and_bytes_are_bits(names: list[str], n: int) -> None:
    uplink, updates, ues = chain(*names), some(3, n), np.array([7, 0, 250])
    before = 0.1 * some(3, uplink.numbers_kept(n))
    arrived, after = uplink.send(updates, before, draws(ues))
    for row in range(3):
        data, kept = uplink.to_bytes(updates[row], before[row], draws(ues[[row]]))
        assert torch.equal(uplink.from_bytes(data, n), arrived[row])
        assert torch.equal(kept, after[row])
    assert 0 <= 8 * uplink.num_bytes(n) - uplink.bits(n, 32) <= 7 * 4
    assert uplink.num_bytes(80_000) * 8 <= 1.02 * uplink.bits(80_000, 32)


def test_bits_counted_are_those_of_the_formulas() -> None:
    n = 80_001
    buckets = 32 * ceil(n / 512)
    assert chain("ternary").bits(n, 32) == 8 * ceil(n / 5) + buckets
    for bits in (2, 4, 8):
        assert chain_of(Rounding(bits)).bits(n, 32) == bits * n + buckets
    k = ceil(0.01 * n)
    assert chain("top-k").bits(n, 32) == k * (32 + ceil(log2(n)))
    assert chain("random-k").bits(n, 32) == 32 * k + 32
    assert chain("top-k", "rounding").bits(n, 32) == k * (ceil(log2(n)) + 8) + 32 * ceil(k / 512)


@pytest.mark.parametrize("names", [["top-k"], ["top-k", "rounding"], ["top-k", "ternary"]])
def test_what_did_not_arrive_is_added_to_the_next_update(names: list[str]) -> None:
    uplink = Uplink.of((name, TopK(Sparse(k=5)) if name == "top-k" else UPLINKS.get(name)()) for name in names)
    kept, came, went = torch.zeros(2, 50, dtype=torch.float64), torch.zeros(2, 50), torch.zeros(2, 50)
    for key in range(60):
        update = some(2, 50, torch.float64) + 0.1 * key
        foretold = uplink.variance(update, kept, draws(2, key))
        arrived, after = uplink.send(update, kept, draws(2, key))
        left = (update + kept - arrived).square().sum(1)
        if names == ["top-k"]:
            torch.testing.assert_close(foretold, left)
        else:
            assert bool((foretold >= 0.3 * left).all())
        kept, came, went = after, came + arrived, went + update
        torch.testing.assert_close(came + kept, went, rtol=1e-6, atol=1e-6)


def test_of_equal_numbers_the_first_are_taken() -> None:
    rows = torch.tensor([[0.0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [5, 1, 3, 2, 2]])
    assert largest(rows, 2).tolist() == [[1, 2], [0, 1], [0, 2]]
    assert largest(rows, 4).tolist() == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 3, 4]]


def test_random_places_are_everywhere_and_others_in_every_message() -> None:
    sends = chain_of(RandomK(Sparse(0.1)))
    arrived, _ = sends.send(torch.ones(3000, 40), torch.zeros(3000, 0), draws(3000))
    assert bool((arrived.count_nonzero(1) == 4).all())
    chosen = (arrived != 0).double().mean(0)
    assert float((chosen - 0.1).abs().max()) < 0.03
    assert not torch.equal(arrived[0], arrived[1])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Rounding(1), "rounding has 1 bits a number; wanted 2, 4 or 8"),
        (lambda: Rounding(8, 0), "a bucket has 0 numbers; wanted at least 1"),
        (lambda: Ternary(0), "a bucket has 0 numbers"),
        (lambda: TopK(Sparse(0.0)), r"the share of numbers sent is 0.0"),
        (lambda: TopK(Sparse(k=0)), "k is 0; wanted at least one number"),
        (lambda: chain_of(TopK(Sparse(k=9))).bits(8, 32), "'top-k' has k = 9; an update that is given to it has 8"),
        (lambda: chain_of(TopK(), TopK()).bits(8, 32), "feeds back what one before it feeds back"),
        (lambda: chain("rounding", "ternary").bits(8, 32), "'ternary' is given no numbers"),
    ],
)
def test_what_cannot_be_is_refused(make: object, said: str) -> None:
    with pytest.raises(LearningError, match=said):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.5}, {"k": 0}, {"k": 3, "share": 0.5}, {"bucket": 512}])
def test_options_that_cannot_be_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        UPLINKS.get("top-k", **options)


def test_single_draws_are_a_ues_own() -> None:
    together = draws(np.array([4, 0, 99])).uniform32(33)
    assert together.dtype == torch.float32
    for row, ue in enumerate((4, 0, 99)):
        assert torch.equal(draws(np.array([ue])).uniform32(33)[0], together[row])
