"""What receivers lack, by the steps since the model they hold, and the worst of those who are there."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.network.downlink import NOBODY, Powers, in_cells, lacking_bits, least_in_cells, remembered_steps, servers_j

MODEL = 100.0


def after(steps):
    """The memory of steps, as it grows from round to round."""
    kept = np.zeros(0)
    for bits in steps:
        kept = remembered_steps(kept, bits, MODEL)
    return kept


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(st.just(0.0), st.floats(0.1, 150.0), st.just(np.inf)), max_size=12))
def test_a_receiver_lacks_the_steps_since_its_model_or_the_model_whichever_is_less(steps):
    held = np.arange(len(steps) + 1)
    lacks = lacking_bits(held, len(steps), after(steps), MODEL)
    for number, bits in zip(held, lacks, strict=True):
        np.testing.assert_allclose(bits, min(sum(min(one, MODEL) for one in steps[number:]), MODEL), rtol=1e-12)


def test_steps_that_cost_more_than_a_model_together_are_forgotten():
    assert after([30.0] * 10).tolist() == [30.0] * 3
    assert after([np.inf] * 10).tolist() == [MODEL]
    assert after([30.0, np.inf, 30.0]).tolist() == [30.0]


def test_the_worst_of_a_cell_is_the_worst_of_those_who_are_there():
    under = np.array([0, NOBODY, 2, 2, 0])
    assert least_in_cells(np.array([5.0, 0.1, 3.0, 2.0, 4.0]), under, 3).tolist() == [4.0, np.inf, 2.0]
    assert in_cells(under, 3).tolist() == [2, 0, 2]


def test_servers_spend_transmitting_and_receiving():
    powers = Powers(cloud_w=2.0, edge_w=3.0, edge_receive_w=0.5)
    hears = np.array([True, False, True])
    assert servers_j(powers, cloud_s=4.0, cells_s=np.array([5.0, 0.0, 5.0]), hears=hears) == 8.0 + 4.0 + 30.0
