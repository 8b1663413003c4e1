"""The grid of study `methods`: data, partitions, planners, and what each method's step is chosen from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hpfl.config import Config, load
from hpfl.learning import METHODS
from hpfl.studies.cases import Scale

METHOD_NAMES = tuple(METHODS.names())
PARTITIONS: Mapping[str, Sequence[str]] = {
    "l = 2": ("data.partitioner=labels", "data.labels_per_ue=2"),
    "Dirichlet 0.1": ("data.partitioner=dirichlet", "data.concentration=0.1"),
    "IID": ("data.partitioner=iid",),
}
"""Who has which samples, by a name."""
PLANNERS = ("fastest", "full")
DEVELOPMENT = 101
"""The seed on which steps are chosen; it judges nothing."""
EVALUATIONS = 20
"""Of a run with `fastest`."""
_STEP_KEYS = {"pfedme": "learning.method_options.local_lr"}
"""The key of a method's step, where that is not `learning.outer_lr`."""
_STEPS = {"pfedme": (0.002, 0.005, 0.01, 0.05, 0.2)}
_USUAL_STEPS = (0.01, 0.02, 0.05, 0.2, 0.5)


@dataclass(frozen=True, kw_only=True)
class MethodData:
    """A data set of the study: preset, UEs, rounds with `fastest` and with `full`, and what is run on it.

    It is evaluated 20 times with `fastest`, and with `full` every so many rounds. Steps are chosen on its second
    partition, with `full`, in half of the rounds.
    """

    name: str
    preset: str
    fastest_rounds: int
    full_rounds: int
    full_every: int = 1
    ues_per_edge: int = 6
    held_out: int = 10
    samples: str = "[30.0, 120.0]"
    seeds: int = 5
    planners: tuple[str, ...] = PLANNERS
    partitions: tuple[str, ...] = tuple(PARTITIONS)
    methods: tuple[str, ...] = METHOD_NAMES
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodPlace:
    """One run: where, by which method, at which step, on which seed."""

    data: MethodData
    partition: str
    planner: str
    method: str
    step: float
    seed: int
    develops: bool = False

    @property
    def labels(self) -> dict[str, object]:
        """What it is told by."""
        return {
            "group": "development" if self.develops else "judged",
            "data": self.data.name,
            "partition": self.partition,
            "planner": self.planner,
            "method": self.method,
            "step": self.step,
            "seed": self.seed,
        }

    @property
    def name(self) -> str:
        """As a path."""
        short = self.partition.replace(" = ", "-").replace(" ", "-").lower()
        step = f"step-{self.step:g}/" if self.develops else ""
        group = "development/" if self.develops else ""
        return f"methods/{group}{self.data.name}/{short}/{self.planner}/{self.method}/{step}seed-{self.seed}"

    def config(self) -> Config:
        """Its configuration."""
        fastest = self.planner == "fastest"
        rounds = self.data.fastest_rounds if fastest else self.data.full_rounds // (2 if self.develops else 1)
        every = rounds // EVALUATIONS if fastest else self.data.full_every
        key = _STEP_KEYS.get(self.method, "learning.outer_lr")
        about = (
            "network.edges=10",
            f"network.ues_per_edge={self.data.ues_per_edge}",
            f"data.held_out_ues={self.data.held_out}",
            f"data.samples_per_ue={self.data.samples}",
            *PARTITIONS[self.partition],
            f"learning.method={self.method}",
            "learning.local_epochs=1",
            "learning.batch_size=20",
            f"{key}={self.step}",
            f"planning.planner={self.planner}",
            f"training.rounds={rounds}",
            f"training.seed={self.seed}",
            f"evaluation.every={rounds if self.develops else every}",
            "evaluation.test_samples=50",
            *self.data.changes,
        )
        return load(self.data.preset, overrides=about)


MNIST = MethodData(name="mnist", preset="paper-mnist", fastest_rounds=60, full_rounds=25)
FASHION = replace(MNIST, name="fashion-mnist", changes=("data.dataset=fashion-mnist",))
CIFAR10 = MethodData(
    name="cifar10",
    preset="paper-cifar10",
    fastest_rounds=120,
    full_rounds=40,
    full_every=2,
    seeds=3,
    planners=("fastest",),
)
FULL = (MNIST, FASHION, CIFAR10)
MINI = replace(
    MNIST,
    name="mnist-mini",
    preset="quickstart-paper",
    fastest_rounds=20,
    full_rounds=8,
    ues_per_edge=3,
    held_out=5,
    samples="[20.0, 40.0]",
    partitions=("l = 2", "Dirichlet 0.1"),
    methods=("apfl", "ditto", "fedavg", "fedavg-ft", "fedper", "local", "scaffold"),
)


def grid(scale: Scale) -> tuple[MethodData, ...]:
    """All data sets, or a sample."""
    return (MINI,) if scale.thin else FULL


def steps_of(method: str, scale: Scale) -> Sequence[float]:
    """What a method's step is chosen from."""
    steps = _STEPS.get(method, _USUAL_STEPS)
    return steps[2:4] if scale.thin else steps


def development(data: MethodData, scale: Scale) -> Iterator[MethodPlace]:
    """The runs that steps are chosen by."""
    for method in data.methods:
        for step in steps_of(method, scale):
            yield MethodPlace(data, data.partitions[1], "full", method, step, DEVELOPMENT, develops=True)


def judged(data: MethodData, steps: Mapping[str, float], seed: int) -> Iterator[MethodPlace]:
    """The runs on a seed that judges of the methods whose steps are chosen."""
    for partition, planner, method in product(data.partitions, data.planners, data.methods):
        if method in steps:
            yield MethodPlace(data, partition, planner, method, steps[method], seed)
