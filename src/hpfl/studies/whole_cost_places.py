"""Where `whole-cost` is run: networks and data with their targets, what may be chosen there, and when a run is let go.

Limits keep runs short: one on development seeds, one for fixed choices (whoever needs that long is not the best of
them), and one for everybody else. A run that meets its limit counts with "at least" that time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpfl.studies.cases import Scale

DEVELOPMENT = (101, 102)
"""Seeds on which codecs, steps and hearers are chosen: all ways on the first, the best of them on the others too."""
UNSEEN = 300
"""What is added to a seed's number: with the usual five, seeds 300 to 304 judge, which nothing was chosen on."""
CODECS: Mapping[str, str] = {
    "32 bits": "[]",
    "4 bits": '[{name = "rounding", bits = 4}]',
    "ternary": '["ternary"]',
    "top 1 %": '[{name = "top-k", share = 0.01}]',
    "top 1 %, 8 bits": '[{name = "top-k", share = 0.01}, {name = "rounding", bits = 8}]',
    "auto": '"auto"',
}
"""`learning.uplink` by a name; `auto` leaves it to the planner."""
ALL = 0
"""As a number of edges: all of them."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Simulated seconds after which a run ends: of the development grid, of a fixed choice, of any other."""

    development_s: float
    fixed_s: float
    longest_s: float
    published_s: float
    """Of the paper's rule as published, and of what is held against it alone."""


@dataclass(frozen=True, kw_only=True)
class CostPlace:
    """A setting: preset and what is changed in it, the accuracy to reach, and the grid of what may be chosen.

    `sizes` are the numbers of edges of fixed choices. `chosen_at` names the place whose development runs decide here
    too; where it is another place, only `fastest` and the fixed choices are run.
    """

    data: str
    name: str
    preset: str
    target: float
    steps: tuple[float, ...]
    codecs: tuple[str, ...]
    sizes: tuple[int, ...]
    limits: Limits
    rounds: int
    changes: tuple[str, ...] = ()
    edge_skew: float = 0.0
    rivals: tuple[str, ...] = ("paper+p4", "joint", "full", "shpfl", "round-robin", "random-1")
    rivals_hear: tuple[str, ...] = ("all", "scheduled")
    every: int = 1
    chosen_at: str = ""
    slow_edge: bool = False
    decomposed: bool = True
    long_rounds: int = 0
    """Rounds in which `full` may converge; 0: not asked here."""
    long_seeds: int = 5
    """On how many seeds, at most, that is asked."""
    seconds_per_joule: float = 0.0
    """The price with which joules are judged; 0: not asked here."""
    off: bool = False
    """Whether nothing but the paper's uplink is charged: there `fastest` is held against its version before alone."""

    @property
    def key(self) -> tuple[str, str]:
        """By which it is told from others."""
        return self.data, self.name

    @property
    def develops(self) -> bool:
        """Whether choices are made here."""
        return self.chosen_at in {"", self.name}


_MNIST = CostPlace(
    data="mnist",
    name="skew-0",
    preset="paper-mnist",
    target=0.93,
    steps=(0.07, 0.2, 0.5, 0.7, 1.0),
    codecs=("32 bits", "4 bits", "ternary", "top 1 %", "top 1 %, 8 bits"),
    sizes=(1, 2, 4, 8, 15, ALL),
    limits=Limits(development_s=8.0, fixed_s=4.0, longest_s=40.0, published_s=600.0),
    rounds=150,
    long_rounds=600,
    seconds_per_joule=0.3,
)
_CIFAR10 = CostPlace(
    data="cifar10",
    name="skew-0",
    preset="paper-cifar10",
    target=0.6,
    steps=(0.06, 0.12, 0.24, 0.48),
    codecs=("32 bits", "ternary", "top 1 %"),
    sizes=(1, 4, ALL),
    limits=Limits(development_s=35.0, fixed_s=30.0, longest_s=100.0, published_s=900.0),
    rounds=300,
    every=2,
    rivals_hear=("scheduled",),
    long_rounds=500,
    long_seeds=2,
    seconds_per_joule=0.1,
)


def _skewed(place: CostPlace, times: float) -> CostPlace:
    """The same with like UEs under one edge, and so many times the seconds and rounds."""
    limits = place.limits
    return replace(
        place,
        name="skew-1",
        edge_skew=1.0,
        limits=Limits(
            development_s=times * limits.development_s,
            fixed_s=times * limits.fixed_s,
            longest_s=times * limits.longest_s,
            published_s=limits.published_s,
        ),
        rounds=int(times * place.rounds),
    )


def _other(name: str, *changes: str, seconds: float = 6.0, sizes: tuple[int, ...] = _MNIST.sizes) -> CostPlace:
    """MNIST with something changed, where `fastest` is set against fixed choices alone."""
    return replace(
        _MNIST,
        name=name,
        changes=changes,
        chosen_at="skew-0",
        limits=replace(_MNIST.limits, fixed_s=seconds),
        sizes=sizes,
        decomposed=False,
        long_rounds=0,
        seconds_per_joule=0.0,
    )


_HUNDRED = (
    "network.edges=100",
    "network.ues_per_edge=4",
    "planning.staleness_bound=100",
    "data.samples_per_ue=[30.0, 200.0]",
)
"""400 UEs share the data, and one edge a round needs a hundred rounds to call all."""
_OTHERS = (
    replace(_other("dirichlet", "data.partitioner=dirichlet", seconds=8.0), target=0.85),
    _other("5x40", "network.edges=5", "network.ues_per_edge=40", seconds=8.0, sizes=(1, 2, 4, ALL)),
    _other("100x4", *_HUNDRED),
    _other("1-mhz", "network.bandwidth_hz=1e6", seconds=15.0),
    _other("20-mhz", "network.bandwidth_hz=2e7", seconds=3.0),
    replace(_other("slow-edge"), slow_edge=True),
)


def _off(place: CostPlace, name: str, *changes: str, target: float | None = None, seconds: float = 120.0) -> CostPlace:
    """A setting for which times of the version before are recorded, all off."""
    return replace(
        place,
        name=f"off-{name}",
        changes=changes,
        target=target or place.target,
        limits=replace(place.limits, longest_s=seconds),
        off=True,
    )


_RECORDED = replace(_MNIST, data="mnist-mini", preset="quickstart-paper", target=0.9, rounds=300)
_OFF = (
    *(replace(_off(_MNIST, f"skew-{skew:g}"), edge_skew=skew) for skew in (0.0, 0.5, 1.0)),
    _off(_RECORDED, "as-it-is"),
    _off(_RECORDED, "1-mhz", "network.bandwidth_hz=1e6", seconds=400.0),
    _off(_RECORDED, "20-mhz", "network.bandwidth_hz=2e7"),
    _off(_RECORDED, "dirichlet", "data.partitioner=dirichlet", target=0.84),
    _off(_RECORDED, "10-labels", "data.labels_per_ue=10", target=0.72),
    _off(_RECORDED, "5x20", "network.edges=5", "network.ues_per_edge=20"),
    _off(_RECORDED, "long-step", "learning.outer_lr=0.5", "data.edge_skew=1.0"),
    *(replace(_off(_CIFAR10, f"skew-{skew:g}", seconds=250.0), edge_skew=skew) for skew in (0.0, 1.0)),
)
_SKEWED_CIFAR10 = replace(_skewed(_CIFAR10, 1.5), decomposed=False, long_rounds=0)
FULL: tuple[CostPlace, ...] = (_MNIST, _skewed(_MNIST, 2.0), *_OTHERS, _CIFAR10, _SKEWED_CIFAR10, *_OFF)
_MINI = replace(
    _MNIST,
    data="mnist-mini",
    preset="quickstart-paper",
    target=0.85,
    steps=(0.07, 0.5),
    codecs=("32 bits", "ternary"),
    sizes=(1, ALL),
    rivals=("full", "round-robin"),
    rivals_hear=("all",),
    limits=Limits(development_s=6.0, fixed_s=6.0, longest_s=10.0, published_s=60.0),
    rounds=40,
    long_rounds=30,
)
_MINI_1_MHZ = replace(
    _MINI,
    name="1-mhz",
    changes=("network.bandwidth_hz=1e6",),
    chosen_at="skew-0",
    limits=replace(_MINI.limits, fixed_s=20.0, longest_s=20.0),
    decomposed=False,
    long_rounds=0,
    seconds_per_joule=0.0,
)
QUICK: tuple[CostPlace, ...] = (_MINI, _MINI_1_MHZ, _off(_MINI, "as-it-is", seconds=30.0))


def places(scale: Scale) -> tuple[CostPlace, ...]:
    """Everywhere, or a sample."""
    return QUICK if scale.thin else FULL


def development_seeds(scale: Scale) -> tuple[int, ...]:
    """The seeds on which choices are made."""
    return DEVELOPMENT[:1] if scale.thin else DEVELOPMENT
