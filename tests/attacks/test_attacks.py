"""Each attack is what its paper says."""

import numpy as np
import pytest
import torch

from hpfl.attacks import ATTACKS, Labelled
from hpfl.attacks.alie import largest_z
from hpfl.attacks.choosing import hostile_edges, hostile_ues
from hpfl.rng import Streams

OWN = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
HONEST = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])


def crafted(name, own=OWN, honest=HONEST, **options):
    return ATTACKS.get(name, **options)().crafted(own, honest)


def test_a_sign_flip_and_a_scaling_have_a_multiple_of_the_median_honest_norm():
    assert np.allclose(crafted("sign-flip", ratio=4.0), [[-4.8, -6.4], [0.0, -8.0]])
    assert np.allclose(crafted("scaling", ratio=0.5), [[0.6, 0.8], [0.0, 1.0]])
    assert crafted("sign-flip", own=torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]


def test_alie_is_off_the_mean_by_z_deviations_and_all_send_the_same():
    deviation = float(np.std([1.0, 3.0, 2.0]))
    assert np.allclose(crafted("alie", z=1.5), [[2.0 - 1.5 * deviation, 0.0]] * 2)


def test_alies_largest_z_is_that_of_the_papers_example():
    """50 workers of which 24 are hostile: s = 2, and the quantile at 24 / 26."""
    assert largest_z(50, 24) == pytest.approx(1.4260768, abs=1e-6)
    assert largest_z(5, 1) == pytest.approx(0.0, abs=1e-9)
    assert largest_z(4, 4) == 0.0


def test_ipm_is_the_honest_mean_turned_round_and_above_its_bound_the_mean_follows():
    assert crafted("ipm", epsilon=0.5).tolist() == [[-1.0, 0.0]] * 2
    both = torch.cat([crafted("ipm", epsilon=1.6), HONEST])
    assert both.mean(dim=0)[0] < 0 < torch.cat([crafted("ipm", epsilon=1.4), HONEST]).mean(dim=0)[0]


def samples(count=1000):
    return Labelled(torch.rand(count, 1, 8, 8), torch.arange(count) % 10, 10)


def test_flipped_labels_are_the_last_for_the_first():
    made = ATTACKS.get("label-flip")().poisoned(samples(10), np.zeros(10))
    assert made.targets.tolist() == list(range(9, -1, -1))


def test_a_backdoor_patches_a_share_and_its_tests_are_all_patched_but_those_of_the_target():
    attack, given = ATTACKS.get("backdoor", target=3, size=2, share=0.25)(), samples()
    made = attack.poisoned(given, Streams(0).at("lots").uniform(1000))
    patched = (made.inputs != given.inputs).flatten(1).any(1)
    assert 200 < int(patched.sum()) < 300
    assert (made.targets[patched] == 3).all()
    assert torch.equal(made.targets[~patched], given.targets[~patched])
    tests, counts = attack.tests(given)
    assert (tests.inputs[:, :, -2:, -2:] == given.inputs.max()).all()
    assert torch.equal(tests.inputs[:, :, :-2], given.inputs[:, :, :-2])
    assert (tests.targets == 3).all()
    assert torch.equal(counts, given.targets != 3)


@pytest.mark.parametrize(("options", "said"), [({"size": 9}, "a patch of 9"), ({"target": 10}, "classes 0 to 9")])
def test_a_backdoor_that_does_not_fit_the_samples_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ATTACKS.get("backdoor", **options)().poisoned(samples(), np.zeros(1000))


def test_hostile_members_are_a_share_of_every_cell_drawn_by_the_seed_or_those_named():
    counts = np.array([5, 10, 5])
    drawn = hostile_ues(0.2, counts, Streams(3))
    assert [int(cell.sum()) for cell in np.split(drawn, [5, 15])] == [1, 2, 1]
    assert np.array_equal(drawn, hostile_ues(0.2, counts, Streams(3)))
    assert any(not np.array_equal(drawn, hostile_ues(0.2, counts, Streams(seed))) for seed in range(4, 8))
    assert np.flatnonzero(hostile_ues([2, 19], counts, Streams(0))).tolist() == [2, 19]
    assert np.flatnonzero(hostile_edges([1], 3, Streams(0))).tolist() == [1]
    assert hostile_edges(0.2, 10, Streams(0)).sum() == 2
