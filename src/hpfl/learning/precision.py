"""Which arithmetic products may use: float32 as it is, or TensorFloat-32 and bfloat16, faster at about three digits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

import torch

from hpfl.learning.faults import LearningError
from hpfl.learning.objective import OBJECTIVES

Products = Literal["full", "tf32", "bf16"]
"""What a product rounds its factors to: nothing beyond their own type, or 10 or 7 binary digits; sums are float32."""


def check_products(products: Products, device: torch.device, dtype: torch.dtype, objective: str) -> None:
    """Refuse rounded products where they make no sense."""
    if products == "full":
        return
    found = f"learning.dtype is {products!r}"
    if products not in ("tf32", "bf16"):
        raise LearningError(f"products are {products!r}; wanted 'full', 'tf32' or 'bf16'")
    if dtype != torch.float32:
        raise LearningError(f"{found}, which rounds products of float32; parameters are {dtype}")
    if OBJECTIVES.part(objective).traits["differences"]:
        raise LearningError(f"{found}; differences of gradients lose such few digits: wanted the objective 'exact'")
    if device.type != "cuda":
        raise LearningError(f"{found}, which only pays on a GPU, and the device is {device}; wanted 'float32'")
    if torch.cuda.get_device_capability(device)[0] < 8:
        raise LearningError(f"{found}; {torch.cuda.get_device_name(device)} has no such products, wanted 'float32'")


def check_computes(products: Products, device: torch.device, trial: Callable[[], object]) -> None:
    """Refuse bfloat16 for a model of whose layers one does not take it, as a trial tells."""
    if products != "bf16":
        return
    try:
        with repeatable(products, device):
            trial()
    except RuntimeError as error:
        raise LearningError(
            f"learning.dtype is 'bf16', in which this model does not compute ({error}); wanted 'tf32' or 'float32'"
        ) from error


@contextmanager
def repeatable(products: Products = "full", device: torch.device | None = None) -> Iterator[None]:
    """Deterministic convolutions, and rounded products only where asked for; the settings before are put back."""
    matmul, tf32 = torch.backends.cuda.matmul, products == "tf32"
    before = matmul.allow_tf32
    matmul.allow_tf32 = tf32
    try:
        with ExitStack() as stack:
            flags = torch.backends.cudnn.flags
            stack.enter_context(flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32))
            if products == "bf16" and device is not None:
                stack.enter_context(torch.autocast(device.type, torch.bfloat16, cache_enabled=False))
            yield
    finally:
        matmul.allow_tf32 = before
