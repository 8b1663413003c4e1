"""The page on planning from NumPy: its blocks run in order and say what they say; its sketches are HPFL's own."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from hpfl.rng import Streams
from hpfl.training.sketch import make_projection

PAGE = Path(__file__).parents[1] / "docs" / "plan-from-numpy.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def session():
    """What is defined after all blocks have run; Flower's is only compiled."""
    names = {}
    for number, block in enumerate(BLOCKS):
        code = compile(block, f"{PAGE.name}, block {number}", "exec")
        if "flwr" not in block:
            exec(code, names)
    return names


def test_there_is_one_block_for_flower_and_the_others_run(session):
    assert sum("flwr" in block for block in BLOCKS) == 1
    assert len(BLOCKS) >= 7
    assert session["hpfl"]


def test_the_page_says_what_comes_out(session):
    assert session["said"] in PAGE.read_text(encoding="utf-8")
    assert session["called"] == [0, 1, 2, 3, 4, 0, 1]
    assert session["left"] == pytest.approx(0.1, abs=0.05)
    assert 1 <= session["uploads"].size <= 10
    assert session["plan"].ue_bandwidth_hz.sum() == pytest.approx(1e6)


@pytest.mark.parametrize(("size", "width", "seed"), [(1000, 64, 0), (79_510, 64, 7), (10, 16, 1), (128, 32, 3)])
def test_a_sketch_of_the_page_is_that_of_a_run(session, size, width, seed):
    updates = np.random.default_rng(seed).normal(size=(3, size))
    own = make_projection(size, Streams(seed), width=width)(torch.from_numpy(updates)).numpy()
    np.testing.assert_allclose(session["projection"](size, width, seed)(updates), own, rtol=1e-12, atol=1e-12)
