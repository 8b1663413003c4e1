"""Every key of a configuration, with its unit, its bounds and one line of meaning."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr, field_validator

from hpfl.arrays import IntArray
from hpfl.config.fields import Auto, DistributionSpec, check_distribution, key
from hpfl.config.named import Names, NamesSeveral, options_key
from hpfl.config.old_keys import RenewedSection, old_key
from hpfl.data.partition import PARTITIONERS
from hpfl.data.sources import DATASETS
from hpfl.learning import LOSSES, MODELS
from hpfl.learning.blocks import BLOCK
from hpfl.learning.method import METHODS
from hpfl.learning.metrics import METRICS
from hpfl.learning.uplink import UPLINKS
from hpfl.network.channel import CHANNELS
from hpfl.network.path_losses import PATH_LOSSES
from hpfl.planning.planners import PLANNERS
from hpfl.training.clock import CLOCKS
from hpfl.training.combine import COMBINES
from hpfl.training.watching import WATCHERS

PositiveInt = Annotated[int, Field(ge=1)]
Table = dict[str, Any]
PathLossName = Annotated[str, Names(PATH_LOSSES)]
CombineName = Annotated[str, Names(COMBINES)]


class NetworkConfig(RenewedSection):
    """The radio and the machines."""

    section = "network"

    edges: int = key(20, "edge servers, K", ge=1)
    ues_per_edge: int | list[PositiveInt] = key(10, "UEs under each edge: one number, or one per edge")
    bandwidth_hz: float = key(5e6, "bandwidth shared by all links of a round, B", unit="Hz", gt=0)
    noise_dbm_per_hz: float = key(-174.0, "noise density, N_0", unit="dBm/Hz", ge=-250, le=0)
    ue_power_w: DistributionSpec = key(0.01, "transmit power of a UE, p", unit="W")
    edge_power_w: DistributionSpec = key(0.01, "transmit power of an edge towards the cloud", unit="W")
    cpu_hz: DistributionSpec = key(2e9, "CPU frequency of a UE, delta", unit="Hz")
    cycles_per_bit: DistributionSpec = key(20.0, "CPU cycles per bit of training data, c", unit="cycles/bit")
    ue_distance_m: DistributionSpec = key([2.0, 50.0], "distance from a UE to its edge", unit="m")
    edge_distance_m: DistributionSpec = key([50.0, 200.0], "distance from an edge to the cloud", unit="m")
    ue_gain_db: float = key(-36.0, "power gain at 1 m between UE and edge, o_i", unit="dB", ge=-200, le=100)
    edge_gain_db: float = key(-40.0, "power gain at 1 m between edge and cloud, o_k", unit="dB", ge=-200, le=100)
    path_loss_exponent: float = key(2.0, "gain falls as distance to the minus this", ge=0, le=10)
    ue_path_loss: PathLossName = key(
        "power-law", "path loss UE to edge: power-law (the paper), 3GPP umi, uma, sionna-*"
    )
    ue_path_loss_options: Table = options_key("ue_path_loss")
    edge_path_loss: PathLossName = key(
        "power-law", "path loss edge to cloud: power-law (the paper), 3GPP umi, uma, sionna-*"
    )
    edge_path_loss_options: Table = options_key("edge_path_loss")
    carrier_ghz: float = key(3.5, "carrier frequency (path losses of TR 38.901)", unit="GHz", ge=0.5, le=100)
    channel: Annotated[str, Names(CHANNELS)] = key("path-loss-and-fading", "what the links' gains are made of", since=3)
    channel_options: Table = options_key("channel")
    coherence_rounds: int = key(1, "rounds for which a fade lasts", unit="rounds", ge=1)
    coherence_s: float = key(0.0, "seconds for which a fade lasts (clock event); 0 goes by rounds", unit="s", ge=0)
    trace: str = key("", "CSV or Parquet file of gains, compute times, availability to replay; empty draws them")
    write_trace: str = key("", "CSV file to write the trace that replays this run to; empty writes none")
    spectrum: Literal["fixed", "phased"] = key(
        "fixed", "Hz of a link for the whole round (fixed, the paper), or the band shared anew in each phase", since=4
    )
    backhaul: bool = key(True, "whether edges upload over the radio; false: the one edge is the cloud (fl, pfl)")
    bits_per_parameter: int = key(32, "bits of one model parameter on the air", unit="bit", ge=1, le=64)
    downlink: Literal["free", "charged"] = key("free", "a broadcast takes no time (the paper), or is counted", since=4)
    reuse: int = key(1, "cells that send over the same band at a time (downlink charged); 1: none do", ge=1, since=4)
    cloud_power_w: float = key(0.01, "transmit power of the cloud (downlink charged)", unit="W", ge=0, since=4)
    edge_down_power_w: float = key(
        0.01, "transmit power of an edge towards its UEs (downlink charged)", unit="W", ge=0, since=4
    )
    ue_receive_power_w: float = key(
        0.01, "what a UE draws while it receives (downlink charged)", unit="W", ge=0, since=4
    )
    edge_receive_power_w: float = key(
        0.01, "what an edge draws while it receives (downlink charged)", unit="W", ge=0, since=4
    )

    fading = old_key("network.fading")

    @field_validator("ue_power_w", "edge_power_w", "cpu_hz", "cycles_per_bit", "ue_distance_m", "edge_distance_m")
    @classmethod
    def _positive(cls, spec: Any) -> Any:
        return check_distribution(spec, least=0, what="it")

    @field_validator("ues_per_edge")
    @classmethod
    def _someone(cls, value: int | list[int]) -> int | list[int]:
        if isinstance(value, int) and value < 1:
            raise ValueError("every edge needs at least one UE")
        return value

    @property
    def ues_of_edges(self) -> IntArray:
        """Number of UEs under each edge, as an array."""
        if isinstance(self.ues_per_edge, int):
            return np.full(self.edges, self.ues_per_edge, dtype=np.int64)
        return np.asarray(self.ues_per_edge, dtype=np.int64)

    @property
    def num_ues(self) -> int:
        """N, all UEs."""
        return int(self.ues_of_edges.sum())


class DataConfig(RenewedSection):
    """Which data, and who has which."""

    section = "data"

    dataset: Annotated[str, Names(DATASETS)] = key(
        "mnist-mini", "data set: mnist-mini (carried along), mnist, cifar10; own: folder:PATH, module:function"
    )
    dataset_options: Table = options_key("dataset")
    signature: str = key("", "own samples must have this signature; a run writes it down, empty takes any", since=2)
    partitioner: Annotated[str, Names(PARTITIONERS)] = key("labels", "how UEs share the data: labels, dirichlet, iid")
    partitioner_options: Table = options_key("partitioner")
    labels_per_ue: int = key(2, "labels a UE has, l (partitioner labels)", ge=1)
    concentration: float = key(0.5, "how even a UE's label mix is (partitioner dirichlet)", gt=0)
    samples_per_ue: DistributionSpec = key([20.0, 60.0], "training samples of a UE, D", unit="samples")
    edge_skew: float = key(0.0, "0 deals UEs to edges at random, 1 gathers like UEs under one edge", ge=0, le=1)
    disjoint: bool = key(True, "whether no two UEs share a sample; false lets shards overlap")

    @field_validator("samples_per_ue")
    @classmethod
    def _samples(cls, spec: Any) -> Any:
        return check_distribution(spec, least=1, what="a number of samples")


class LearningConfig(RenewedSection):
    """The model and how a UE learns."""

    section = "learning"

    model: Annotated[Any, Names(MODELS, as_is=True)] = key(
        "mlp", "model: mlp, lenet5, or module:callable; in Python a module or a function that makes one"
    )
    model_options: Table = options_key("model")
    loss: Annotated[Any, Names(LOSSES, as_is=True)] = key(
        "cross-entropy", "loss: cross-entropy, mse, or module:callable; in Python a function"
    )
    loss_options: Table = options_key("loss")
    method: Annotated[str, Names(METHODS)] = key(
        "per-fedavg", "a UE's side of a round: per-fedavg (personalised gradients), fedavg (plain ones)", since=3
    )
    method_options: Table = options_key("method")
    inner_lr: float = key(0.03, "inner (adaptation) step, alpha; 0 is plain federated averaging", ge=0)
    outer_lr: float = key(0.07, "outer (meta, global) step, beta", gt=0)
    inner_steps: int = key(1, "adaptation steps inside the objective", ge=1)
    local_steps: int = key(1, "local iterations of a UE per edge round", ge=1)
    batch_size: int = key(0, "samples of a mini-batch; 0 is the full batch", unit="samples", ge=0)
    batches: Literal["shared", "independent"] = key(
        "shared", "one batch for support, query and Hessian, or one for each"
    )
    uplink: Annotated[Any, NamesSeveral(UPLINKS, open_to="auto")] = key(
        [],
        "steps between a UE's update and the sum, codecs last: names, {name=..., options}; auto: the planner's",
        since=3,
    )
    charged_passes: Literal["paper", "counted"] = key(
        "paper", "cycles of a local step: paper charges one pass per batch, counted all of its arithmetic", since=2
    )
    dtype: Literal["float32", "float64", "tf32", "bf16"] = key(
        "float32", "precision: float32, float64; tf32, bf16: float32 whose products a GPU rounds to about three digits"
    )
    memory_gb: float = key(4.0, "memory a cohort's computation may use", unit="GB", gt=0)
    block_ues: int = key(
        BLOCK, "UEs that follow each other and are added up apart: what one worker computes", unit="UEs", since=4, ge=1
    )

    objective = old_key("learning.objective")
    hessian_free_delta = old_key("learning.hessian_free_delta")


class TrainingConfig(RenewedSection):
    """The rounds."""

    section = "training"

    rounds: int = key(100, "cloud rounds, T", ge=1, decides=False)
    seed: int = key(0, "fixes every random draw", ge=0, le=2**63 - 1)
    clock: Annotated[str, Names(CLOCKS)] = key(
        "round", "virtual time: round (the paper's formula) or event (work carries over)"
    )
    clock_options: Table = options_key("clock")
    trigger: Literal["scheduled", "first"] = key(
        "scheduled", "the cloud waits for the edges it called, or for the first max_edges to arrive (clock event)"
    )
    broadcast: Literal["auto", "scheduled", "all"] = key(
        "auto", "who receives the new model after a round; auto: as the planner says, the scheduled if it has no wish"
    )
    staleness_discount: float = key(
        0.0, "a: an update tau rounds old is multiplied by (1 + tau)^-a; 0 takes it whole", ge=0, le=10
    )
    edge_rounds: int = key(1, "edge aggregations per cloud round", ge=1)
    combine: CombineName = key("mean", "how the cloud joins the updates that arrived", since=3)
    combine_options: Table = options_key("combine")
    edge_combine: CombineName = key("mean", "how an edge joins its UEs' updates", since=3)
    edge_combine_options: Table = options_key("edge_combine")
    weighting: Literal["uniform", "samples"] = key("uniform", "means weigh members alike, or by their samples")
    checkpoint_every: int = key(10, "rounds between checkpoints; 0 writes none", unit="rounds", ge=0, decides=False)
    watchers: Annotated[Any, NamesSeveral(WATCHERS)] = key(
        [], "who else watches the run: names, or {name=..., options}", since=3, decides=False
    )

    aggregation = old_key("training.aggregation")


class PlanningConfig(RenewedSection):
    """Who uploads, with how many Hz."""

    section = "planning"

    planner: Annotated[str, Names(PLANNERS)] = key(
        "joint", "how sets and bandwidths are chosen; `hpfl parts planner` lists them"
    )
    planner_options: Table = options_key("planner")
    rho: float = key(0.8, "weight of data importance against latency", ge=0, le=1)
    phi: float | Auto = key("auto", "scale of importance; auto is 5 beta S^2 / A (Theorem 1)")
    max_edges: int = key(15, "most edges wanted per round, A", ge=1)
    staleness_bound: int = key(20, "rounds after which an edge must be scheduled, S", unit="rounds", ge=1)
    importance: Literal["exact", "sketch"] = key("exact", "squared norm of a pending update: foreknown, or by sketches")
    sketch_size: int = key(64, "floats of a sketch (planner fastest, importance sketch); 0: none", ge=0, le=65536)

    script = old_key("planning.script")
    staleness_price = old_key("planning.staleness_price")

    _hearing_is_free: bool = PrivateAttr(default=True)  # and uploads are whole, so that sketches are small beside them

    @property
    def sketches(self) -> bool:
        """Whether UEs send sketches of their updates before a round is planned."""
        asks = PLANNERS.part(self.planner).traits["sketches"]
        wanted = self.importance == "sketch" or (self._hearing_is_free if asks == "free" else asks)
        return bool(self.sketch_size > 0 and wanted)

    @property
    def arrivals(self) -> bool:
        """Whether the planner learns from the updates that arrive, and not from sketches of all before."""
        return bool(PLANNERS.part(self.planner).traits["arrivals"] and not (self.sketches and self._hearing_is_free))

    @field_validator("phi")
    @classmethod
    def _phi(cls, value: float | str) -> float | str:
        if isinstance(value, float) and value < 0:
            raise ValueError("phi must be at least 0, or 'auto'")
        return value


class EvaluationConfig(RenewedSection):
    """What is measured, and how often."""

    section = "evaluation"

    every: int = key(5, "rounds between evaluations (the last round is always evaluated)", unit="rounds", ge=1)
    inner_lr: float | Auto = key("auto", "adaptation step of the personalised accuracy; auto is learning.inner_lr")
    inner_steps: int = key(1, "adaptation steps of the personalised accuracy", ge=1)
    ues: int = key(0, "UEs that are evaluated, drawn once; 0 is all", ge=0)
    test_samples: int = key(50, "test samples of a UE, of its own labels", unit="samples", ge=1)
    metrics: Annotated[Any, NamesSeveral(METRICS)] = key(
        ["accuracy", "test-loss"], "what is measured of every UE: names, or {name=..., options}", since=3
    )
    target_accuracy: float = key(0.9, "personalised accuracy whose time is reported", gt=0, le=1, decides=False)
    target_loss: float = key(0.0, "personalised test loss whose time is reported instead; 0: none", ge=0, decides=False)

    @field_validator("inner_lr")
    @classmethod
    def _inner_lr(cls, value: float | str) -> float | str:
        if isinstance(value, float) and value < 0:
            raise ValueError("an adaptation step must be at least 0, or 'auto'")
        return value
