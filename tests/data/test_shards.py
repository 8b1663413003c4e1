import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.data.shards import PartitionError, Shards, concatenated_ranges

# Three UEs over ten arranged rows: the first has two segments, the second none, the third one.
ORDER = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
SHARDS = Shards(ORDER, np.array([0, 2, 2, 3]), np.array([1, 6, 3]), np.array([2, 1, 4]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=8))
def test_concatenated_ranges_are_the_ranges_one_after_the_other(ranges: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in ranges], dtype=np.int64)
    length = np.array([n for _, n in ranges], dtype=np.int64)
    expected = [row for a, n in ranges for row in range(a, a + n)]
    assert concatenated_ranges(start, length).tolist() == expected


def test_sizes_sum_a_ues_segments() -> None:
    assert SHARDS.num_ues == 3
    assert SHARDS.sizes.tolist() == [3, 0, 4]


def test_rows_of_all_ues_follow_ue_order() -> None:
    rows, offsets = SHARDS.rows()
    assert rows.tolist() == [1, 2, 6, 3, 4, 5, 6]
    assert offsets.tolist() == [0, 3, 3, 7]


def test_rows_of_some_ues_follow_the_order_asked_for_and_may_repeat() -> None:
    rows, offsets = SHARDS.rows(np.array([2, 1, 0, 0]))
    assert rows.tolist() == [3, 4, 5, 6, 1, 2, 6, 1, 2, 6]
    assert offsets.tolist() == [0, 4, 4, 7, 10]


def test_rows_of_no_ues_are_none() -> None:
    rows, offsets = SHARDS.rows(np.array([], dtype=np.int64))
    assert (rows.tolist(), offsets.tolist()) == ([], [0])


def test_source_rows_undo_the_arrangement() -> None:
    assert SHARDS.source_rows(np.array([0]))[0].tolist() == [8, 7, 3]


def test_take_gives_each_ue_the_shard_of_another() -> None:
    taken = SHARDS.take(np.array([2, 0]))
    assert taken.sizes.tolist() == [4, 3]
    assert taken.rows()[0].tolist() == [3, 4, 5, 6, 1, 2, 6]


def test_label_counts_agree_with_counting_sample_by_sample() -> None:
    targets = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    counts = SHARDS.label_counts(targets, 3)
    owned = np.split(targets[SHARDS.source_rows()[0]], [3, 3])
    assert counts.tolist() == [np.bincount(part, minlength=3).tolist() for part in owned]


def test_laying_out_by_ue_keeps_every_shard_and_every_row() -> None:
    scattered = Shards(ORDER, np.array([0, 2, 3]), np.array([1, 6, 3]), np.array([2, 1, 3]))
    laid_out = scattered.in_ue_order()
    assert laid_out.start.tolist() == [0, 3]
    assert laid_out.source_rows()[0].tolist() == scattered.source_rows()[0].tolist()
    assert sorted(laid_out.order.tolist()) == list(range(10))


def test_overlapping_shards_cannot_be_laid_out_one_after_the_other() -> None:
    with pytest.raises(PartitionError, match="overlap"):
        SHARDS.in_ue_order()


@pytest.mark.parametrize(
    ("offsets", "start", "length", "fault"),
    [
        ([0, 1], [8], [3], "outside the 10"),
        ([0, 1], [-1], [3], "outside the 10"),
        ([0, 2], [0], [1], "from 0 to the number of segments, 1"),
        ([0, 2, 1, 2], [0, 1], [1, 1], "do not agree"),
        ([0, 1], [0], [1, 1], "do not agree"),
    ],
)
def test_segments_that_make_no_sense_are_refused(
    offsets: list[int], start: list[int], length: list[int], fault: str
) -> None:
    with pytest.raises(PartitionError, match=fault):
        Shards(ORDER, np.array(offsets), np.array(start), np.array(length))
