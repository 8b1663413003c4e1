"""What has no place in the gradient of one UE: layers known by their kind, and draws from anybody's generators."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from hpfl.learning.faults import LearningError

NOT_KEYED = "draws random numbers outside the keyed streams, so that a run would not repeat"


def refuse_layers(module: nn.Module) -> None:
    """Refuse layers without sizes, and those whose gradient depends on more than parameters and one sample."""
    for name, part in module.named_modules():
        for wrong, why in _REFUSED:
            if wrong(part):
                raise LearningError(f"{layer_name(name, part)} {why}")


def layer_name(name: str, part: nn.Module) -> str:
    """A layer by its name and kind; the model itself has no name."""
    return f"layer {name!r} ({type(part).__name__})" if name else f"the model ({type(part).__name__})"


def random_states(device: torch.device) -> tuple[Any, ...]:
    """Where the generators stand that torch, NumPy and Python keep for everybody: exact, however seldom it shows."""
    _, words, *place = np.random.get_state()  # noqa: NPY002  a model of somebody's own may use it
    own = torch.cuda.get_rng_state(device).numpy().tobytes() if device.type == "cuda" else b""
    return torch.get_rng_state().numpy().tobytes(), own, np.asarray(words).tobytes(), place, random.getstate()


def _lazy(part: nn.Module) -> bool:
    return any(nn.parameter.is_lazy(parameter) for parameter in part.parameters(recurse=False))


def _keeps_statistics(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.batchnorm._BatchNorm) or getattr(part, "track_running_stats", False)


def _drops_out(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0


def _slopes_at_random(part: nn.Module) -> bool:
    return isinstance(part, nn.RReLU) and part.training and part.lower != part.upper


def _embeds(option: str) -> Callable[[Any], bool]:
    return lambda part: isinstance(part, nn.Embedding | nn.EmbeddingBag) and bool(getattr(part, option))


_REFUSED: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_lazy, "has no sizes before its first input; wanted one that is given them"),
    (
        _keeps_statistics,
        "keeps running statistics that change in training, which have no place in a UE's gradient; "
        "use nn.GroupNorm, nn.LayerNorm or nn.InstanceNorm2d without running statistics instead",
    ),
    (_drops_out, f"{NOT_KEYED}; set p = 0, and use a smaller model or fewer local steps against overfitting"),
    (_slopes_at_random, f"{NOT_KEYED}; use nn.LeakyReLU"),  # only where its inputs are negative
    (_embeds("sparse"), "has sparse gradients, which cannot be adapted along; set sparse = False"),
    (
        _embeds("max_norm"),
        "rescales its own weights in every forward pass, which no gradient knows of; set max_norm = None",
    ),
    (
        _embeds("scale_grad_by_freq"),
        "divides its gradient by how often a word is in the batch, which is the gradient of no loss; "
        "set scale_grad_by_freq = False",
    ),
)
