"""From a node's file and the experiment to what the node needs: model, roster, radio and fleet."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.assembly import BitsOnAir, SampleCost, fleet_spec, sample_cost, task_of, touched_samples
from hpfl.config import Experiment
from hpfl.data.sources import described
from hpfl.deployment.node_names import default_name
from hpfl.deployment.rosters import ChildRoster
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, NodeSettings, SettingsError
from hpfl.deployment.wire import VectorSpec
from hpfl.learning import Task
from hpfl.network.channel import Gains
from hpfl.network.energy import compute_j
from hpfl.network.latency import compute_s
from hpfl.network.links import Links
from hpfl.network.newcomers import drawn_newcomers
from hpfl.network.places import Places, places_at_rest
from hpfl.network.radio import Radio
from hpfl.network.topology import Fleet, make_fleet
from hpfl.rng import Streams
from hpfl.training.sketch import DEFAULT_WIDTH


def node_shape(settings: NodeSettings, config: Experiment) -> tuple[tuple[int, ...], int]:
    """Shape of an input and number of outputs, as the node's file says, else those of the data set."""
    spec = described(config.data.dataset, config.data.options("dataset"))
    return tuple(settings.input_shape) or tuple(spec.input_shape), settings.num_outputs or spec.num_outputs


def make_node_task(settings: NodeSettings, config: Experiment) -> Task:
    """The experiment's model and loss, for the shapes of a node."""
    input_shape, num_outputs = node_shape(settings, config)
    return task_of(config, input_shape=input_shape, num_outputs=num_outputs)


def node_cost(config: Experiment, task: Task) -> SampleCost:
    """What a sample is charged; a node without samples counts on empty ones of their shape."""
    spec = described(config.data.dataset, config.data.options("dataset"))
    classes = spec.num_classes is not None
    targets = torch.zeros(2, dtype=torch.int64) if classes else torch.zeros(2, spec.num_outputs)
    return sample_cost(config, task, spec.sample_bits, (torch.zeros(2, *spec.input_shape), targets))


def sketch_width(config: Experiment) -> int:
    """Numbers in a sketch; a deployed cloud always plans on sketches, also where the experiment says 0."""
    return config.planning.sketch_size or DEFAULT_WIDTH


def vector_spec(task: Task, config: Experiment) -> VectorSpec:
    """What models and updates look like on the wire."""
    dtype = np.dtype("<f8" if config.learning.dtype == "float64" else "<f4")
    return VectorSpec(task.spec.num_parameters, dtype)


def edge_roster(settings: CloudNodeSettings, config: Experiment) -> ChildRoster:
    """Names of the cloud's children by number."""
    slots = range(config.network.edges)
    names = settings.edges or ([] if settings.edges_file else [f"edge-{k}" for k in slots])
    return ChildRoster(slots, names, what="edges", file=settings.edges_file)


def ue_roster(settings: EdgeNodeSettings, config: Experiment) -> ChildRoster:
    """Names of one edge's children by their number among all UEs."""
    slots = ue_slots(config, settings.number)
    names = settings.ues or ([] if settings.ues_file else [default_name(i) for i in slots])
    return ChildRoster(slots, names, what="ues", file=settings.ues_file)


def ue_slots(config: Experiment, edge: int) -> range:
    """Numbers of one edge's UEs among all UEs."""
    counts = config.network.ues_of_edges
    if edge >= len(counts):
        raise SettingsError(f"number is {edge}; the experiment has {len(counts)} edges, from 0")
    first = int(counts[:edge].sum())
    return range(first, first + int(counts[edge]))


def newcomers_among(config: Experiment) -> frozenset[int]:
    """Numbers of the UEs that never train: every node finds the same, which are those of a simulation."""
    count, sizes = config.data.held_out_ues, config.network.ues_of_edges
    if count > int(sizes.sum()) - len(sizes):
        raise SettingsError(
            f"data.held_out_ues is {count}; of {sizes.sum()} UEs at most {sizes.sum() - len(sizes)} can be held out, "
            f"for each of {len(sizes)} edges needs one that trains"
        )
    new = drawn_newcomers(count, np.repeat(np.arange(len(sizes)), sizes), Streams(config.training.seed))
    return frozenset(np.flatnonzero(new).tolist())


def training_slots(config: Experiment, edge: int, newcomers: frozenset[int]) -> Collection[int]:
    """Numbers of those of an edge's UEs that train."""
    slots = ue_slots(config, edge)
    return [number for number in slots if number not in newcomers] if newcomers else slots


@dataclass(frozen=True, kw_only=True)
class LinkModel:
    """The modelled radio and machines of an experiment, from which every round's links are drawn.

    `menu` has the bits of uploads by entry of the menu of codings; links are those of its first, or uncoded.
    """

    config: Experiment
    menu: tuple[BitsOnAir, ...]
    cost: SampleCost
    radio: Radio
    streams: Streams

    def links(self, round_number: int, members: IntArray, samples: IntArray) -> Links:
        """Links of the UEs `members` (sorted, with `samples` each) and of all edges, as the simulator draws them.

        Where the experiment plans on sketches, computing is over by then and no longer part of the uploads.
        """
        fleet, noise = self._fleet(members, samples), self.radio.noise_w_per_hz
        moment, places = self.radio.moment(round_number, 0.0), places_at_rest(fleet, self.streams)
        ue_gain, edge_gain = self.radio.gains(moment, places, self.streams, members=members)
        return Links(
            edge_gain=edge_gain,
            edge_power_w=fleet.edge_power_w,
            edge_noise_w_per_hz=np.full(fleet.num_edges, noise),
            edge_bits=np.full(fleet.num_edges, self.menu[0].edge),
            members=members,
            edge_of_ue=fleet.edge_of_ue[members],
            ue_gain=ue_gain,
            ue_power_w=fleet.ue_power_w[members],
            ue_noise_w_per_hz=np.full(members.size, noise),
            ue_bits=np.full(members.size, self.menu[0].ue),
            compute_s=self._compute_s(fleet)[members] * (0.0 if self.config.planning.sketches else 1.0),
            compute_j=self._compute_j(fleet)[members],
        )

    def seen_from_above(self, round_number: int) -> tuple[Gains, Places]:
        """Gains of all UEs and backhauls and where everything is, which are those of the way down too."""
        places, everybody = self.places, np.arange(self.config.network.num_ues)
        moment = self.radio.moment(round_number, 0.0)
        return self.radio.gains(moment, places, self.streams, members=everybody), places

    @cached_property
    def places(self) -> Places:
        """Where everything is: nobody moves in the model."""
        nobody = np.zeros(0, dtype=np.int64)
        return places_at_rest(self._fleet(nobody, nobody), self.streams)

    def compute_j(self, members: IntArray, samples: IntArray) -> FloatArray:
        """Modelled joules of computing on one model, of the UEs `members` with `samples` each."""
        return self._compute_j(self._fleet(members, samples))[members]

    def cpu_hz(self) -> FloatArray:
        """CPU frequencies of all UEs, Hz."""
        nobody = np.zeros(0, dtype=np.int64)
        return self._fleet(nobody, nobody).cpu_hz

    def _fleet(self, members: IntArray, samples: IntArray) -> Fleet:
        everyone = np.zeros(self.config.network.num_ues, dtype=np.int64)
        everyone[members] = samples
        return replace(self._machines, num_samples=everyone)

    @cached_property
    def _machines(self) -> Fleet:
        """The fleet, drawn once for all rounds; the samples are of those who take part."""
        nobody = np.zeros(self.config.network.num_ues, dtype=np.int64)
        return make_fleet(fleet_spec(self.config), nobody, self.streams)

    def _compute_j(self, fleet: Fleet) -> FloatArray:
        return compute_j(self._compute_s(fleet), fleet.cpu_hz)

    def _compute_s(self, fleet: Fleet) -> FloatArray:
        return compute_s(
            touched_samples(self.config, fleet.num_samples, self.cost.passes),
            cycles_per_bit=fleet.cycles_per_bit,
            sample_bits=self.cost.bits,
            cpu_hz=fleet.cpu_hz,
        )
