"""Models and losses handed over in Python: they run, and what is saved of them is honest."""

import pytest
import torch
from torch import nn

import hpfl
from hpfl.config import fingerprint, load

SHAPE = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=2"]


def small():
    return load("quickstart-paper", overrides=SHAPE)


def module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def build(input_shape, num_outputs):
    """A builder that another process can import."""
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(input_shape).numel(), num_outputs))


def test_a_module_or_a_function_that_makes_one_can_be_assigned():
    config = small()
    config.learning.model = module()
    config.training.rounds = 1
    assert hpfl.run(config).summary["num_parameters"] == 7850
    config.learning.model = lambda num_outputs: nn.Sequential(nn.Flatten(), nn.Linear(784, num_outputs, bias=False))
    config.learning.loss = nn.CrossEntropyLoss()
    assert hpfl.run(config).summary["num_parameters"] == 7840


def test_a_modules_own_values_are_the_start():
    config = small()
    config.learning.model, config.learning.outer_lr = module(), 1e-12
    assert torch.allclose(hpfl.run(config).model["1.weight"], module()[1].weight, atol=1e-6)


def test_a_function_that_can_be_imported_again_is_kept_by_its_name():
    config = small()
    config.learning.model = nn.Linear  # not a model for this data, but importable
    assert config.learning.model == "torch.nn.modules.linear:Linear"


def test_a_part_that_no_name_leads_to_is_saved_as_given_and_refused_when_run_from_there(tmp_path):
    config = small()
    config.learning.model = module()
    hpfl.run(config, out=tmp_path / "run")
    saved = load(tmp_path / "run" / "config.toml")
    assert saved.learning.model.startswith("given:Sequential-")
    with pytest.raises(hpfl.ConfigError, match=r'learning.model is "given:Sequential-.*handed over in Python'):
        hpfl.run(saved)
    config.training.rounds = 3
    assert hpfl.run(config, out=tmp_path / "run", resume=True).completed


def test_another_module_is_another_experiment():
    names = set()
    for made in (module(0), module(1), nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(784, 10)), "mlp"):
        config = small()
        config.learning.model = made
        names.add(fingerprint(config))
    assert len(names) == 4
    config = small()
    config.learning.model = module(0)
    assert fingerprint(config) in names


def test_what_is_neither_a_name_nor_callable_is_refused():
    with pytest.raises(ValueError, match="wanted a name, module:callable or a callable, not int"):
        small().learning.model = 3
