"""A UE's own samples: its part of the experiment's data set, a folder, or a function of the user's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpfl.config import Experiment
from hpfl.data.dataset import DatasetError, to_float
from hpfl.data.own_files import NAMES, read_own
from hpfl.data.sources import load_dataset
from hpfl.dealing import deal, fitted
from hpfl.registry import imported
from hpfl.rng import Streams


@dataclass(frozen=True)
class OwnData:
    """Training and test samples of one UE; they never leave it."""

    inputs: torch.Tensor
    targets: torch.Tensor
    test_inputs: torch.Tensor
    test_targets: torch.Tensor

    def __post_init__(self) -> None:
        pairs = ((self.inputs, self.targets, "training"), (self.test_inputs, self.test_targets, "test"))
        for inputs, targets, part in pairs:
            if len(inputs) != len(targets):
                raise DatasetError(f"{part} part: {len(inputs)} inputs but {len(targets)} targets")
            if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
                raise DatasetError(f"{part} part: some inputs are not finite")
        if not len(self.inputs):
            raise DatasetError("a UE needs at least one training sample")


def own_data(source: str, config: Experiment, number: int, *, data_dir: str = "") -> OwnData:
    """The samples of UE `number` from where its file says: a folder, `module:function`, or the experiment."""
    if not source:
        return dealt_data(config, number, data_dir=data_dir)
    if Path(source).is_dir():
        return _as_data(read_own(Path(source), tested=True), source)
    if ":" in source:
        return _from_function(source)
    raise DatasetError(f"data is {source!r}; wanted a folder or module:function")


def dealt_data(config: Experiment, number: int, *, data_dir: str = "") -> OwnData:
    """What the simulated UE of this number would have: the experiment's data set, dealt with the experiment's seed."""
    dataset = load_dataset(
        config.data.dataset, Path(data_dir) if data_dir else None, options=config.data.options("dataset")
    )
    shape = fitted(config.written, dataset).network
    if not np.array_equal(shape.ues_of_edges, config.network.ues_of_edges):
        raise DatasetError(
            f"{config.data.dataset} has {shape.num_ues} UEs under {shape.edges} edges, the experiment "
            f"{config.network.num_ues} under {config.network.edges}; network.edges and network.ues_per_edge must agree"
        )
    dealt = deal(config, dataset, Streams(config.training.seed))
    mine = np.array([number])
    rows, test_rows = dealt.shards.source_rows(mine)[0], dealt.test_shards.source_rows(mine)[0]
    return OwnData(
        torch.from_numpy(to_float(dataset, dataset.inputs[rows])),
        torch.from_numpy(dataset.targets[rows]),
        torch.from_numpy(to_float(dataset, dataset.test_inputs[test_rows])),
        torch.from_numpy(dataset.test_targets[test_rows]),
    )


def _from_function(source: str) -> OwnData:
    try:
        function = imported(source)
    except ValueError as error:
        raise DatasetError(f"data is {source!r}; {error}") from None
    came = function()
    if not isinstance(came, tuple | list) or len(came) != len(NAMES):
        raise DatasetError(f"{source} returned {type(came).__name__}; wanted four tensors: {', '.join(NAMES)}")
    return _as_data(dict(zip(NAMES, came, strict=True)), source)


def _as_data(arrays: dict[str, Any], where: str) -> OwnData:
    def inputs(name: str) -> torch.Tensor:
        array = _numbers(arrays[name], name, where)
        return array.float() / 255 if array.dtype == torch.uint8 else array

    def targets(name: str) -> torch.Tensor:
        array = _numbers(arrays[name], name, where)
        return array.float() if array.is_floating_point() else array.long()

    return OwnData(inputs("inputs"), targets("targets"), inputs("test_inputs"), targets("test_targets"))


def _numbers(array: Any, name: str, where: str) -> torch.Tensor:
    if not isinstance(array, torch.Tensor | np.ndarray):
        raise DatasetError(f"{where} gives {type(array).__name__}; wanted tensors or arrays")
    try:
        numbers = torch.as_tensor(array)
    except TypeError:  # words, objects, or numbers that torch has no kind for
        raise DatasetError(f"{where}: {name} has the type {array.dtype}; wanted real numbers") from None
    if numbers.is_complex() or not numbers.ndim:
        raise DatasetError(
            f"{where}: {name} has the type {numbers.dtype}, shape {tuple(numbers.shape)}; wanted rows of real numbers"
        )
    return numbers
