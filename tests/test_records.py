"""Records of arrays are sliced by what their fields say, and read through records that have them."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from hpfl.flattened import flattened
from hpfl.records import PER_EDGE, PER_UE, counted, spread, taken


@dataclass(frozen=True, kw_only=True)
class Inner:
    gain: np.ndarray = field(metadata={**PER_EDGE, "absent": 0.0})
    edge_of_ue: np.ndarray = field(metadata={**PER_UE, "numbers": "edge"})
    ids: tuple[str, ...] | None = field(default=None, metadata=PER_UE)

    @property
    def loudest(self):
        return self.gain.max()


@flattened("inner", Inner)
@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    weight: float


def outer():
    inner = Inner(gain=np.array([1.0, 2.0, 3.0]), edge_of_ue=np.array([0, 1, 1, 2]), ids=("a", "b", "c", "d"))
    return Outer(inner=inner, weight=0.5)


def test_a_record_within_is_sliced_with_the_one_that_has_it():
    some = replace(outer(), **taken(outer(), edges=np.array([2, 1]), ues=np.array([1, 2, 3])))
    np.testing.assert_array_equal(some.gain, [3.0, 2.0])
    np.testing.assert_array_equal(some.edge_of_ue, [1, 1, 0])
    assert some.ids == ("b", "c", "d")
    assert some.weight == 0.5


def test_a_record_is_spread_over_edges_that_are_not_there():
    whole = replace(outer(), **spread(outer(), np.array([True, False, True, True])))
    np.testing.assert_array_equal(whole.gain, [1.0, 0.0, 2.0, 3.0])
    np.testing.assert_array_equal(whole.edge_of_ue, outer().edge_of_ue)


def test_an_array_that_does_not_say_what_it_counts_is_refused_and_never_left_unsliced():
    @dataclass(frozen=True)
    class Silent:
        shadowing_db: np.ndarray

    with pytest.raises(TypeError, match=r"Silent\.shadowing_db is an array; its field must say what it has one entry"):
        taken(Silent(np.zeros(3)), edges=np.array([0]))


def test_an_array_over_edges_that_does_not_say_what_absent_ones_have_is_refused():
    @dataclass(frozen=True)
    class Unsure:
        shadowing_db: np.ndarray = field(metadata=PER_EDGE)

    with pytest.raises(TypeError, match="shadowing_db must say what an edge has that is not there"):
        spread(Unsure(np.zeros(2)), np.array([True, False, True]))


def test_every_field_with_entries_is_counted_once():
    assert [entry.name for entry, _ in counted(outer())] == ["gain", "edge_of_ue", "ids"]


def test_what_a_record_within_knows_is_read_given_and_replaced_by_its_own_name():
    flat = Outer(gain=np.ones(1), edge_of_ue=np.zeros(2, dtype=int), weight=1.0)
    assert flat.gain is flat.inner.gain
    assert flat.ids is None
    louder = replace(flat, gain=np.full(1, 7.0))
    assert louder.loudest == louder.inner.loudest == 7.0
    assert louder.edge_of_ue is flat.edge_of_ue


def test_a_record_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"Outer\.inner is of type int; Inner was wanted"):
        Outer(inner=3, weight=1.0)


def test_a_name_that_would_hide_one_within_is_refused():
    with pytest.raises(TypeError, match=r"Hiding\.gain hides Inner\.gain; one name has one meaning"):

        @flattened("inner", Inner)
        @dataclass(frozen=True, kw_only=True)
        class Hiding:
            inner: Inner
            gain: float
