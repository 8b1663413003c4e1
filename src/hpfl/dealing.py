"""Who has which samples: what a configuration means for the data of simulated and real runs alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import IntArray
from hpfl.config import Config, ConfigError, Experiment, NetworkConfig, changed
from hpfl.config.fields import distribution
from hpfl.data.dataset import Dataset, Owners
from hpfl.data.owned import own_shards
from hpfl.data.partition import PartitionSettings, Shards, as_labels, make_shards, make_test_shards
from hpfl.data.sources import DATASETS, described, is_registered
from hpfl.network.distributions import whole_numbers
from hpfl.rng import Streams


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """Who has which samples: training and test shards, and how many of each label a UE has.

    `ue_numbers` is what the samples' owners call each UE, which differs where they are not sorted by edge; `tests`
    says how the test samples came about.
    """

    shards: Shards
    test_shards: Shards
    label_counts: IntArray
    ue_numbers: IntArray
    tests: str


def fitted(config: Config, dataset: Dataset) -> Config:
    """The configuration with what own samples say of themselves: their signature, and the UEs and edges they make."""
    if is_registered(config.data.dataset):
        owners = dataset.owners
        return config if owners is None else changed(config, {"network": _shape(config.network, owners)})
    given: dict[str, dict[str, Any]] = {"data": {"signature": dataset.signature}}
    signature = dataset.signature
    if config.data.signature not in {"", signature}:
        raise ConfigError(
            f'data.signature is "{config.data.signature}"; the samples of {config.data.dataset} have "{signature}", so '
            'they are others than were meant: data.signature = "" takes them as they are'
        )
    if dataset.owners is not None:
        given["network"] = _shape(config.network, dataset.owners)
    return changed(config, given)


def _shape(network: NetworkConfig, owners: Owners) -> dict[str, Any]:
    """Edges and the UEs under each: as the samples' owners sit, all under one where the one edge is the cloud."""
    count = len(owners.sizes)
    if not network.backhaul:
        return {"edges": 1, "ues_per_edge": count}
    if owners.edge_of_ue is not None:
        counts = np.bincount(owners.edge_of_ue).tolist()
        return {"edges": len(counts), "ues_per_edge": counts[0] if len(set(counts)) == 1 else counts}
    if count != network.num_ues:
        raise ConfigError(
            f"the data set has {count} UEs, the network {network.num_ues} (network.edges = {network.edges}, "
            f"network.ues_per_edge = {network.ues_per_edge}); make them agree, or say who sits where with edge_of_ue"
        )
    return {}


def deal(config: Experiment, dataset: Dataset, streams: Streams) -> Dealt:
    """Deal the training and test samples among the UEs, or leave them with their owners."""
    if dataset.owners is not None:
        return _owned(dataset, dataset.owners, streams)
    uniforms = streams.at("samples").uniform(config.network.num_ues)
    shards = make_shards(
        config.part("data.partitioner"),
        dataset.targets,
        num_classes=dataset.num_classes,
        sizes=whole_numbers(distribution(config.data.samples_per_ue), uniforms),
        settings=PartitionSettings(
            labels_per_ue=config.data.labels_per_ue,
            concentration=config.data.concentration,
            disjoint=config.data.disjoint,
            edge_skew=config.data.edge_skew,
        ),
        streams=streams,
    )
    counts = shards.label_counts(as_labels(dataset.targets), dataset.num_classes or 1)
    test_shards = make_test_shards(
        dataset.test_targets, counts, test_samples=config.evaluation.test_samples, streams=streams
    )
    return Dealt(
        shards=shards,
        test_shards=test_shards,
        label_counts=counts,
        ue_numbers=np.arange(shards.num_ues),
        tests=f"{config.evaluation.test_samples} of the data set's test samples per UE, drawn in the proportions of "
        "its training labels; UEs may share them",
    )


def most_dealt(config: Experiment) -> int:
    """No UE is dealt more training samples than this; where samples have owners, all there are."""
    data = config.data
    if not is_registered(data.dataset) or DATASETS.part(data.dataset).made.owned:
        return described(data.dataset, data.options("dataset")).num_train
    return int(np.rint(distribution(data.samples_per_ue).highest))


def _owned(dataset: Dataset, owners: Owners, streams: Streams) -> Dealt:
    """Everybody's own samples, with the UEs sorted by edge as the network wants them."""
    count = len(owners.sizes)
    edges = np.zeros(count, dtype=np.int64) if owners.edge_of_ue is None else owners.edge_of_ue
    places = np.argsort(edges, kind="stable")
    shards, test_shards = own_shards(owners, places, streams)
    drawn = f"{owners.held_out:g} of each UE's own samples, held out of its training"
    return Dealt(
        shards=shards,
        test_shards=test_shards,
        label_counts=shards.label_counts(as_labels(dataset.targets), dataset.num_classes or 1),
        ue_numbers=places,
        tests="each UE's own test samples" if owners.test_sizes is not None else drawn,
    )
