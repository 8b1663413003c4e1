"""What UEs keep and edges' rules remember: only those who computed change, and going back is going back all the way."""

import numpy as np
import torch

from hpfl.learning import Kept
from hpfl.training.remembered import Remembered, kept_of

EVERYONE = Remembered({"method": torch.arange(4.0).reshape(4, 1)})


def computed(known, ues, values, *, again=False, before=True):
    rows = Kept(method=torch.tensor(values).reshape(-1, 1))
    return known.computed(np.array(ues), rows, again=again, before=before)


def of(known, ues, *, again=False):
    return known.of_ues(np.array(ues), again=again).method.flatten().tolist()


def test_computing_again_and_again_starts_from_the_same_rows():
    first = computed(EVERYONE, [1, 3], [10.0, 30.0])
    once = computed(first, [1], [11.0], again=True)
    twice = computed(once, [1], [12.0], again=True)
    assert of(twice, [0, 1, 2, 3]) == [0.0, 12.0, 2.0, 30.0]
    assert of(twice, [1, 3], again=True) == of(once, [1, 3], again=True) == [1.0, 3.0]
    later = computed(twice, [1], [20.0])
    assert of(later, [1, 3], again=True) == [12.0, 3.0]
    assert of(EVERYONE, [0, 1, 2, 3]) == [0.0, 1.0, 2.0, 3.0]


def test_rows_from_before_are_kept_only_where_ues_can_be_lost():
    assert list(computed(EVERYONE, [0], [9.0], before=False).rows) == ["method"]
    assert list(computed(EVERYONE, [0], [9.0]).rows) == ["method", "method_before"]


def test_rules_go_back_in_the_same_way():
    edges = np.array([2, 5])
    first = Remembered().combined(edges, [{"n": 1}, {"n": 1}], again=False, before=True)
    second = first.combined(edges, [{"n": 2}, {"n": 2}], again=False, before=True)
    redone = second.combined(edges[:1], [{"n": 7}], again=True, before=True)
    assert redone.of_edges(edges) == [{"n": 7}, {"n": 2}]
    assert redone.of_edges(edges, again=True) == [{"n": 1}, {"n": 1}]
    assert redone.of_edges(np.array([3])) == [{}]


def test_rules_that_remember_nothing_leave_nothing():
    known = Remembered()
    assert known.combined(np.array([0, 1]), [{}, {}], again=False, before=True) is known
    assert known.computed(np.array([0]), Kept(), again=False, before=True) is known
    assert known.of_ues(np.array([0])) == Kept() == kept_of({}, None)
