"""Words are packed without gaps and come back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_cell import refused

from hpfl.secrecy import Instance, packed, packed_bytes, unpacked
from hpfl.secrecy.words import checked


@given(bits=st.integers(1, 64), data=st.data())
def test_words_come_back_as_they_were_and_take_their_bits_alone(bits, data):
    words = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=50)), np.uint64)
    sent = packed(words, bits)
    assert len(sent) == packed_bytes(len(words), bits) == -(-len(words) * bits // 8)
    np.testing.assert_array_equal(unpacked(sent, len(words), bits), words)
    assert int.from_bytes(sent, "little") == sum(int(word) << (place * bits) for place, word in enumerate(words))


def test_smaller_types_pack_like_larger_ones():
    for kind in (np.uint8, np.uint16, np.uint32):
        assert packed(np.array([1, 2, 250], kind), 9) == packed(np.array([1, 2, 250], np.uint64), 9)


def test_bytes_of_another_length_and_bits_behind_the_last_word_are_refused():
    with refused(match="3 bytes came; 5 words of 3 bits are 2"):
        unpacked(bytes(3), 5, 3)
    with refused(match="bits are set behind the last word"):
        unpacked(b"\xff\xff", 5, 3)
    for length, bits in ((5, 0), (5, 65), (-1, 8)):
        with refused(match=f"{length} words of {bits} bits were asked for"):
            unpacked(b"", length, bits)
    with refused(match="words of 65 bits"):
        packed(np.zeros(1, np.uint64), 65)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (np.zeros(4, np.uint64), "an array (4,) of uint64 came; wanted 3 unsigned integers"),
        (np.zeros((3, 1), np.uint64), "an array (3, 1) of uint64 came"),
        (np.zeros(3), "an array (3,) of float64 came"),
        (np.zeros(3, np.int64), "an array (3,) of int64 came"),
        (np.array([0, 0, 8], np.uint64), "the word 8 came; wanted 3 bits at most"),
    ],
)
def test_words_of_another_kind_are_refused(words, reason):
    with refused(match=f"update: {reason}"):
        checked(words, Instance("update", 3, 3))
