"""The law of every attack in the registry: what it crafts can be sent, is the same again, and changes nobody else."""

import numpy as np
import pytest
import torch

from hpfl.attacks import ATTACKS, Attack, Labelled

NAMES = [*ATTACKS.names(), "ue_and_rule_parts:Silent"]


def rows(seed, count, length=30):
    return torch.randn(count, length, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("hostile", "honest"), [(1, 4), (3, 1), (2, 0)])
def test_what_is_crafted_has_the_form_of_updates_and_leaves_the_others_alone(name, hostile, honest):
    attack, own, others = ATTACKS.get(name)(), rows(1, hostile), rows(2, honest)
    before = own.clone(), others.clone()
    made = attack.crafted(own, others)
    assert isinstance(attack, Attack)
    assert made.shape == own.shape
    assert made.dtype == own.dtype
    assert torch.isfinite(made).all()
    assert torch.equal(made, attack.crafted(own, others))
    assert torch.equal(own, before[0])
    assert torch.equal(others, before[1])


@pytest.mark.parametrize("name", NAMES)
def test_poisoned_samples_are_as_many_of_the_same_form_and_the_honest_ones_stay(name):
    samples = Labelled(torch.rand(40, 1, 8, 8), torch.arange(40) % 10, 10)
    inputs, targets = samples.inputs.clone(), samples.targets.clone()
    attack = ATTACKS.get(name)()
    made = attack.poisoned(samples, np.linspace(0, 1, 40, endpoint=False))
    assert torch.equal(samples.inputs, inputs)
    assert torch.equal(samples.targets, targets)
    assert made.inputs.shape == inputs.shape
    assert ((made.targets >= 0) & (made.targets < 10)).all()
    poisons = not torch.equal(made.targets, targets)
    assert poisons == ATTACKS.part(name).traits["poisons"]
    assert (attack.tests(samples) is not None) == bool(ATTACKS.part(name).traits["columns"])
