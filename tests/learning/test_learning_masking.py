"""Numbers as whole numbers: levels that keep the mean, sums that are exact and never wrap, scales a cell agrees on."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.learning import LearningError, NonFiniteUpdateError
from hpfl.learning.codecs.random_k import RandomK
from hpfl.learning.codecs.sparse import Sparse
from hpfl.learning.draws import Draws
from hpfl.learning.masking.agreed_scales import CLIPPED_SHARE, next_scales
from hpfl.learning.masking.cell_sum import Agreed, CellSum
from hpfl.learning.masking.fixed_point import levels, mean, num_levels, word_bits
from hpfl.rng import Streams

COUNTS = st.sampled_from([3, 4, 15, 255, num_levels(16), num_levels(24), num_levels(32)])
CPU = torch.device("cpu")


def draws(count, key=0, first=0):
    return Draws(Streams(7), key, np.arange(first, first + count), CPU, "cell")


@given(count=COUNTS, weight=st.integers(1, 2**29))
def test_words_are_as_short_as_the_formula_says(count, weight):
    most = (count - 1) * weight
    bits = word_bits(count, weight)
    assert 2 ** (bits - 1) - 1 < most <= 2**bits - 1


def test_words_that_no_sum_fits_are_refused_with_their_numbers():
    with pytest.raises(LearningError, match=r"4294967295 levels and a total weight of up to 2147483648 .* of 63 bits"):
        word_bits(num_levels(32), 2**31)
    with pytest.raises(LearningError, match="total weight of up to 0"):
        CellSum(length=3, most_weight=0, largest=1.0)


@given(count=COUNTS, weights=st.lists(st.integers(1, 1000), min_size=1, max_size=40), sign=st.sampled_from([-1.0, 1.0]))
def test_sums_at_the_extremes_stay_in_their_words_and_come_back_exactly(count, weights, sign):
    scale, most = torch.tensor(2.5), sum(weights)
    ends = levels(torch.full((len(weights), 1), sign * 2.5), scale, count, torch.full((len(weights), 1), 0.5))
    total = (ends * torch.tensor(weights).unsqueeze(1)).sum(0)
    assert 0 <= int(total) <= (count - 1) * most < 2 ** word_bits(count, most)
    found = mean(total % 2 ** word_bits(count, most), torch.tensor([most]), scale, count)
    assert float(found) == pytest.approx(sign * 2.5, rel=1e-15)


@settings(max_examples=60)
@given(
    count=COUNTS,
    numbers=st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12),
    weights=st.lists(st.integers(1, 500), min_size=12, max_size=12),
    key=st.integers(0, 99),
)
def test_a_mean_of_levels_is_that_of_fractions(count, numbers, weights, key):
    rows, own = torch.tensor([numbers]).T, weights[: len(numbers)]
    found = levels(rows, torch.tensor(2.0), count, draws(len(rows), key).uniform32(1))
    total, weight, half = (
        sum(n * one for n, one in zip(own, found[:, 0].tolist(), strict=True)),
        sum(own),
        Fraction(count - 1, 2),
    )
    exact = (Fraction(total, weight) - half) * 2 / half
    mine = mean(torch.tensor([total]), torch.tensor([weight]), torch.tensor(2.0), count)
    assert float(mine) == pytest.approx(float(exact), rel=1e-14, abs=1e-300)
    grid = 2 / float(half)
    for number, level in zip(numbers, found[:, 0].tolist(), strict=True):
        assert abs((level - float(half)) * grid - min(max(number, -2.0), 2.0)) < grid * (1 + 1e-9)


@pytest.mark.parametrize("count", [3, 4, 15])
def test_levels_are_right_in_the_mean(count):
    numbers = torch.linspace(-1, 1, 41).expand(20000, -1)
    found = levels(numbers, torch.tensor(1.0), count, torch.rand(numbers.shape, generator=torch.manual_seed(3)))
    means = mean(found.sum(0), torch.tensor([len(found)]), torch.tensor(1.0), count)
    spread = 1 / (count - 1) / len(found) ** 0.5  # half a level, at most
    assert float((means - numbers[0]).abs().max()) < 4.5 * spread


def test_what_is_zero_stays_zero_where_there_is_such_a_level():
    found = levels(torch.zeros(5, 9), torch.tensor(1.0), num_levels(24), torch.full((5, 9), 0.999))
    assert torch.equal(found, torch.full((5, 9), 2**23 - 1))


def test_an_update_beyond_the_range_is_scaled_down_as_a_whole_and_told():
    cell = CellSum(length=4, most_weight=2, largest=1.0)
    rows = torch.tensor([[0.5, -0.25, 0.0, 0.125], [4.0, -8.0, 0.0, 2.0]])
    sent = cell.words(rows, torch.ones(2, dtype=torch.int64), Agreed(), draws(2))
    assert sent.scaled.tolist() == [False, True]
    each = [cell.mean(row.unsqueeze(0), torch.tensor([1]), Agreed(), 4).update[0] for row in sent.words]
    assert torch.allclose(each[0], rows[0].double(), atol=2e-7)
    assert torch.allclose(each[1], rows[1].double() / 8, atol=2e-7)
    assert int(sent.words.min()) >= 0
    assert int(sent.words.sum(0).max()) < 2**cell.bits


def test_numbers_that_are_not_finite_never_become_words():
    cell = CellSum(length=2, most_weight=1, largest=1.0)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(NonFiniteUpdateError, match="not finite"):
            cell.words(torch.tensor([[0.0, wrong]]), torch.ones(1, dtype=torch.int64), Agreed(), draws(1))


def test_more_weight_than_words_were_made_for_is_refused():
    cell = CellSum(length=1, most_weight=5, largest=1.0)
    with pytest.raises(LearningError, match="add up to 6; wanted 1 to 5"):
        cell.mean(torch.tensor([[3]]), torch.tensor([6]), Agreed(), 1)
    with pytest.raises(LearningError, match="add up to 0; wanted 1 to 5"):
        cell.mean(torch.tensor([[0]]), torch.tensor([0]), Agreed(), 1)


@given(parts=st.lists(st.integers(1, 5), min_size=1, max_size=6), key=st.integers(0, 9))
@settings(max_examples=25)
def test_words_do_not_depend_on_who_is_in_the_chunk(parts, key):
    count = sum(parts)
    cell = CellSum(length=7, most_weight=count, largest=2.0, count=15, bucket=3, first=0.5)
    rows = torch.randn(count, 7, generator=torch.manual_seed(key))
    agreed, ones = Agreed(cell.first_scales().expand(count, -1)), torch.ones(count, dtype=torch.int64)
    whole = cell.words(rows, ones, agreed, draws(count, key)).words
    first = 0
    for size in parts:
        at = torch.arange(first, first + size)
        some = cell.words(rows[at], ones[at], agreed.rows(at), draws(size, key, first)).words
        assert torch.equal(some, whole[at])
        first += size


def test_a_bucket_counts_the_weight_of_those_who_were_clipped():
    cell = CellSum(length=5, most_weight=6, largest=9.0, count=3, bucket=2, first=1.0)
    rows = torch.tensor([[0.5, -2.0, 0.0, 0.5, 3.0], [0.5, 0.5, 1.0, -1.0, 0.0], [5.0, 0.0, 0.0, 0.0, 1.5]])
    scales = Agreed(cell.first_scales().expand(3, -1))
    sent = cell.words(rows, torch.tensor([1, 2, 3]), scales, draws(3))
    assert sent.words.shape == (3, cell.num_words) == (3, 8)
    found = cell.mean(sent.words.sum(0, keepdim=True), torch.tensor([6]), Agreed(cell.first_scales()[None]), 5)
    assert found.clipped[0].tolist() == pytest.approx([4 / 6, 0.0, 4 / 6])


def test_scales_find_the_quantile_that_they_seek():
    peaks = torch.rand(1000, 1, generator=torch.manual_seed(1)) + 0.5
    scales = torch.tensor([0.001])
    for _ in range(60):
        clipped = (peaks > scales).double().mean(0)
        scales = next_scales(scales, clipped, least=1e-6, most=16.0)
    assert float(scales) == pytest.approx(float(torch.quantile(peaks, 1 - CLIPPED_SHARE)), rel=0.02)
    assert scales.dtype == torch.float32


def test_scales_stay_between_their_limits():
    ends = torch.tensor([1e-6, 16.0])
    assert torch.equal(next_scales(ends, torch.tensor([0.0, 1.0]), least=1e-6, most=16.0), ends)


def test_places_of_a_common_seed_are_the_same_of_all_and_right_in_the_mean():
    sparse = RandomK(Sparse(k=4))
    cell = CellSum(length=10, most_weight=3, largest=1.0, sparse=sparse)
    row, total = torch.linspace(-0.9, 0.9, 10), torch.zeros(10, dtype=torch.float64)
    for key in range(1500):
        seed = cell.seeds(Draws(Streams(1), key, np.array([2]), CPU, "cell"))
        agreed = Agreed(seeds=seed.expand(3, 1))
        sent = cell.words(row.expand(3, -1), torch.ones(3, dtype=torch.int64), agreed, draws(3, key))
        assert sent.words.shape == (3, 4)
        total += cell.mean(sent.words.sum(0, keepdim=True), torch.tensor([3]), Agreed(seeds=seed), 10).update[0]
    assert torch.allclose(total / 1500, row.double(), atol=0.13)


def test_only_what_travels_is_sent_and_the_rest_arrives_as_zero():
    places = torch.tensor([1, 3])
    cell = CellSum(length=2, most_weight=2, largest=1.0, places=places)
    rows = torch.tensor([[9.0, 0.5, 9.0, -0.5], [9.0, 0.25, 9.0, 0.0]])
    sent = cell.words(rows, torch.ones(2, dtype=torch.int64), Agreed(), draws(2))
    found = cell.mean(sent.words.sum(0, keepdim=True), torch.tensor([2]), Agreed(), 4).update[0]
    assert found[[0, 2]].tolist() == [0.0, 0.0]
    assert torch.allclose(found[places], torch.tensor([0.375, -0.25], dtype=torch.float64), atol=2e-7)
    with pytest.raises(LearningError, match="has 2 numbers; wanted 3"):
        CellSum(length=3, most_weight=2, largest=1.0, places=places).words(rows, torch.ones(2), Agreed(), draws(2))


def test_scales_of_another_shape_are_refused():
    cell = CellSum(length=5, most_weight=2, largest=1.0, count=3, bucket=2)
    with pytest.raises(LearningError, match=r"have shape \(1, 2\); wanted \(1, 3\)"):
        cell.words(torch.zeros(1, 5), torch.ones(1), Agreed(torch.ones(1, 2)), draws(1))
    with pytest.raises(LearningError, match="have shape None"):
        cell.words(torch.zeros(1, 5), torch.ones(1), Agreed(), draws(1))
