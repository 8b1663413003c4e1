import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hpfl.rng import Streams

seeds = st.integers(0, 2**63 - 1)


@settings(deadline=None, max_examples=60)
@given(seed=seeds, start=st.integers(0, 50), count=st.integers(0, 50), round_number=st.integers(0, 10**6))
def test_any_slice_of_a_stream_equals_the_slice_of_the_whole(seed, start, count, round_number):
    stream = Streams(seed).at("purpose", round_number)
    assert np.array_equal(stream.uniform(count, start), stream.uniform(100)[start : start + count])


@pytest.mark.parametrize("draw", ["uniform", "exponential", "normal"])
def test_slices_of_every_distribution_agree_with_the_whole(draw):
    stream = Streams(7).at("x", 3)
    assert np.array_equal(getattr(stream, draw)(9, 5), getattr(stream, draw)(14)[5:])


@pytest.mark.parametrize("other", [Streams(1).at("a", 0), Streams(0).at("b", 0), Streams(0).at("a", 1)])
def test_seed_purpose_and_round_each_change_every_draw(other):
    assert not np.any(Streams(0).at("a", 0).uniform(100) == other.uniform(100))


def test_draws_are_the_recorded_ones():
    """Golden: python -c "from hpfl.rng import Streams; print(Streams(0).at('fading/ue', 1).uniform(3).tolist())"."""
    first = Streams(0).at("fading/ue", 1).uniform(3)
    assert first.tolist() == GOLDEN


GOLDEN = [0.9315986261909275, 0.5007575418843836, 0.009922130703971743]


@pytest.mark.parametrize(
    ("draw", "law"),
    [("uniform", stats.uniform()), ("exponential", stats.expon()), ("normal", stats.norm())],
)
def test_draws_follow_their_law(draw, law):
    sample = getattr(Streams(11).at(draw), draw)(20_000)
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3


def test_permutation_holds_everyone_once():
    assert sorted(Streams(5).at("p").permutation(1000).tolist()) == list(range(1000))


@settings(deadline=None, max_examples=40)
@given(seed=seeds, count=st.integers(1, 60), data=st.data())
def test_a_choice_is_distinct_sorted_and_of_the_wanted_size(seed, count, data):
    size = data.draw(st.integers(0, count))
    chosen = Streams(seed).at("c").choice(count, size)
    assert len(chosen) == size
    assert np.all(np.diff(chosen) > 0)
    assert np.all((chosen >= 0) & (chosen < count))


def test_integers_cover_their_range_evenly():
    counts = np.bincount(Streams(2).at("i").integers(10, 50_000), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3
