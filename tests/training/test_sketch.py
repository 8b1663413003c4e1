import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.rng import Streams
from hpfl.training.sketch import make_projection


def vectors(count, size, seed=0):
    return torch.from_numpy(Streams(seed).at("v").normal(count * size).reshape(count, size))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), size=st.integers(1, 300), width=st.integers(1, 64))
def test_the_mean_of_sketches_is_the_sketch_of_the_mean(seed, size, width):
    projection = make_projection(size, Streams(seed), width=width)
    updates = vectors(5, size, seed)
    assert torch.allclose(projection(updates).mean(0), projection(updates.mean(0)), atol=1e-10)


def test_inner_products_are_estimated_without_bias_and_with_the_promised_error():
    size, width, trials = 500, 64, 400
    x, y = vectors(2, size, seed=3)
    y = x + 0.5 * y
    pairs = [(make_projection(size, Streams(seed), width=width)(torch.stack([x, y]))) for seed in range(trials)]
    products = np.array([float(pair[0] @ pair[1]) for pair in pairs])
    norms = np.array([float(pair[0] @ pair[0]) for pair in pairs])
    spread = float(torch.sqrt((x @ x * (y @ y) + (x @ y) ** 2) / width))
    assert products.mean() == pytest.approx(float(x @ y), abs=4 * spread / np.sqrt(trials))
    assert products.std() <= 1.2 * spread
    assert norms.std() / float(x @ x) == pytest.approx(np.sqrt(2 / width), rel=0.2)


def test_the_projection_depends_on_nothing_but_the_seed():
    one, other = (make_projection(100, Streams(7)) for _ in range(2))
    assert torch.equal(one(vectors(1, 100)), other(vectors(1, 100)))
