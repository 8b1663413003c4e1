"""Heads: the parameters of a model's last layers, which some methods treat apart from its body."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpfl.learning.faults import LearningError
from hpfl.learning.task import ParameterSpec


def in_head(spec: ParameterSpec, named: Sequence[str], *, key: str = "head", may_be_all: bool = False) -> Tensor:
    """Which parameters the layers have that an option (`key`) names, else the last layer, bool [P].

    Names that are not in the model are refused, and unless it `may_be_all` a head that is the whole model: nothing
    would be left to travel.
    """
    layers = _layers(spec, named, key)
    mask = torch.zeros(spec.num_parameters, dtype=torch.bool)
    for parameter, place in spec.places.items():
        mask[place] = any(_belongs(parameter, layer) for layer in layers)
    if bool(mask.all()) and not may_be_all:
        raise LearningError(
            f"the head ({', '.join(layers)}) is the whole model, so a UE would have nothing to send; "
            f"wanted a layer before it (learning.method_options.{key})"
        )
    return mask


def _layers(spec: ParameterSpec, named: Sequence[str], key: str) -> tuple[str, ...]:
    for name in named:
        if not any(_belongs(parameter, name) for parameter in spec.names):
            there = ", ".join(dict.fromkeys(map(_layer, spec.names)))
            raise LearningError(
                f"learning.method_options.{key} names {name!r}, which is not in the model; its layers are {there}"
            )
    return tuple(named) or (_layer(spec.names[-1]),)


def _belongs(parameter: str, layer: str) -> bool:
    return parameter == layer or parameter.startswith(f"{layer}.")


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter
