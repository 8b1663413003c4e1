"""Rounded products: where they are refused, and that every engine computes with them."""

from typing import Any

import pytest
import torch
from cohort_examples import EXAMPLES, updates

from hpfl.learning import LearningError, LocalTraining
from hpfl.learning.precision import check_products, repeatable

CPU = torch.device("cpu")


def test_full_products_are_welcome_everywhere() -> None:
    for dtype in (torch.float32, torch.float64):
        check_products("full", CPU, dtype, "hessian-free")


@pytest.mark.parametrize("products", ["tf32", "bf16"])
def test_rounded_products_are_refused_on_a_cpu(products: Any) -> None:
    training = LocalTraining(inner_lr=0.1, outer_lr=0.1)
    with pytest.raises(LearningError, match=f"learning.dtype is '{products}', which only pays on a GPU"):
        EXAMPLES["mlp"]().cohort(training, dtype=torch.float32, products=products)


@pytest.mark.parametrize(
    ("dtype", "objective", "words"),
    [(torch.float64, "exact", "rounds products of float32"), (torch.float32, "hessian-free", "lose such few digits")],
)
def test_rounded_products_are_refused_where_their_digits_do_not_suffice(
    dtype: torch.dtype, objective: str, words: str
) -> None:
    with pytest.raises(LearningError, match=words):
        check_products("bf16", torch.device("cuda"), dtype, objective)


def test_unknown_products_are_refused() -> None:
    wrong: Any = "fp8"
    with pytest.raises(LearningError, match="wanted 'full', 'tf32' or 'bf16'"):
        check_products(wrong, CPU, torch.float32, "exact")


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("name", ["mlp", "lenet5", "smooth chain", "group norm", "tied tokens", "regression"])
def test_products_in_bfloat16_cost_a_few_digits(name: str, layerwise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpfl.learning.cohort.check_products", lambda *given: None)  # a CPU can, it does not pay
    example, training = EXAMPLES[name](), LocalTraining(inner_lr=0.03, outer_lr=0.1, inner_steps=2)
    exact = updates(example.cohort(training, layerwise=layerwise), example.start).update
    cohort = example.cohort(training, dtype=torch.float32, products="bf16", layerwise=layerwise)
    rounded = updates(cohort, example.start).update
    assert rounded.dtype == torch.float32
    assert 1e-5 * exact.norm() < (rounded.double() - exact).norm() < 0.1 * exact.norm()


def test_a_model_that_does_not_compute_in_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpfl.learning.cohort.check_products", lambda *given: None)
    training = LocalTraining(inner_lr=0.03, outer_lr=0.1)  # layer norm does not, on a CPU
    with pytest.raises(LearningError, match=r"in which this model does not compute .* wanted 'tf32' or 'float32'"):
        EXAMPLES["layer norm"]().cohort(training, dtype=torch.float32, products="bf16")


def test_settings_are_put_back_after_rounded_products() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with repeatable("bf16", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with repeatable("tf32", CPU):
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
