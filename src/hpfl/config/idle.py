"""Settings that were given and that no chosen part reads, so that nobody believes they did something."""

from collections.abc import Callable
from typing import Any

from hpfl.config.given import name_of
from hpfl.config.whole import Config

Reason = Callable[[Config, bool], str]
"""Why nothing reads a key in this configuration, where samples have owners or not; empty where something does."""

_WEIGHING = ("joint", "alternating", "paper")
_UNCAPPED = ("full", "round-robin", "random-cycle")
_OWN_MINDED = (*_WEIGHING, *_UNCAPPED, "random", "shpfl", "scripted", "fastest")
"""Planners of this package, of which it is known what they read; others may read everything."""


def idle_settings(config: Config, *, owned: bool = False) -> tuple[str, ...]:
    """A sentence for every key that was set and changes nothing; "auto" is no setting. `owned` samples have owners."""
    found = []
    for place, reason in _REASONS.items():
        why = reason(config, owned) if config.was_set(place) else ""
        if why:
            found.append(f"{place} = {_shown(_value(config, place))} changes nothing: {why}")
    return (*found, *_beyond(config))


def _beyond(config: Config) -> list[str]:
    """Numbers above what there is."""
    network, cap, tested = config.network, config.planning.max_edges, config.evaluation.ues
    lines = []
    capped = network.edges > 1 and not _no_cap(config, False)
    if capped and cap > network.edges and config.was_set("planning.max_edges", "network.edges"):
        lines.append(f"planning.max_edges = {cap} is as good as {network.edges}, the number of edges")
    if tested > network.num_ues:
        lines.append(f"evaluation.ues = {tested} is as good as {network.num_ues}, the number of UEs")
    return lines


def _only(read: Callable[[Config], bool], why: str) -> Reason:
    return lambda config, owned: "" if read(config) else why


def _no_weighing(config: Config, owned: bool) -> str:
    planner = config.planning.planner
    idle = planner in _OWN_MINDED and planner not in _WEIGHING
    return f"planner {planner} does not weigh importance against latency" if idle else ""


def _no_cap(config: Config, owned: bool) -> str:
    if config.training.trigger == "first":
        return ""
    if config.network.edges == 1:
        return "there is one edge"
    planner = config.planning.planner
    scripted = planner == "scripted" and bool(config.planning.script)
    return f"planner {planner} has a number of its own" if planner in _UNCAPPED or scripted else ""


def _no_sketches(config: Config, owned: bool) -> str:
    planning = config.planning
    wanted = planning.sketches or not planning.sketch_size or planning.planner not in _OWN_MINDED
    return "" if wanted else f'planner {planning.planner} needs no sketches, and planning.importance is "exact"'


def _no_dealing(config: Config, owned: bool) -> str:
    return "the samples have owners, and are not dealt" if owned else ""


def _not_dealt_so(partitioner: str) -> Reason:
    def reason(config: Config, owned: bool) -> str:
        shipped = config.data.partitioner in ("labels", "dirichlet", "iid")
        other = shipped and config.data.partitioner != partitioner
        return _no_dealing(config, owned) or (f"partitioner {config.data.partitioner} does not ask" if other else "")

    return reason


def _no_power_law(config: Config, owned: bool) -> str:
    network = config.network
    used = "power-law" in (network.ue_path_loss, network.edge_path_loss if network.backhaul else "")
    return "" if used else "no path loss is a power law"


_BACKHAUL = _only(lambda c: c.network.backhaul, "there is no backhaul: the one edge is the cloud")
_ADAPTS = _only(lambda c: c.learning.inner_lr > 0, "learning.inner_lr is 0, so nothing is adapted")

_REASONS: dict[str, Reason] = {
    "planning.rho": _no_weighing,
    "planning.phi": _no_weighing,
    "planning.max_edges": _no_cap,
    "planning.sketch_size": _no_sketches,
    "planning.staleness_price": _only(
        lambda c: c.planning.planner == "fastest" or c.planning.planner not in _OWN_MINDED,
        "only planner fastest has a price of age",
    ),
    "data.partitioner": _no_dealing,
    "data.samples_per_ue": _no_dealing,
    "data.edge_skew": _no_dealing,
    "data.disjoint": _no_dealing,
    "data.labels_per_ue": _not_dealt_so("labels"),
    "data.concentration": _not_dealt_so("dirichlet"),
    "evaluation.test_samples": _no_dealing,
    "evaluation.inner_steps": _only(
        lambda c: (c.learning.inner_lr if c.evaluation.inner_lr == "auto" else c.evaluation.inner_lr) != 0,
        "evaluation.inner_lr is 0, so nothing is adapted",
    ),
    "evaluation.target_accuracy": _only(
        lambda c: c.evaluation.target_loss == 0, "evaluation.target_loss is the target"
    ),
    "learning.objective": _ADAPTS,
    "learning.inner_steps": _ADAPTS,
    "learning.hessian_free_delta": _only(
        lambda c: c.learning.objective == "hessian-free" and c.learning.inner_lr > 0, "no central difference is taken"
    ),
    "learning.batches": _only(lambda c: c.learning.batch_size > 0, "batches are full, so they are all the same"),
    "network.ue_gain_db": _only(lambda c: c.network.ue_path_loss == "power-law", "the path loss is no power law"),
    "network.edge_gain_db": lambda c, owned: (
        _BACKHAUL(c, owned) or ("" if c.network.edge_path_loss == "power-law" else "the path loss is no power law")
    ),
    "network.path_loss_exponent": _no_power_law,
    "network.carrier_ghz": _only(
        lambda c: {c.network.ue_path_loss, c.network.edge_path_loss} != {"power-law"},
        "a power law knows no carrier frequency",
    ),
    "network.edge_power_w": _BACKHAUL,
    "network.edge_distance_m": _BACKHAUL,
    "network.edge_path_loss": _BACKHAUL,
    "network.coherence_rounds": _only(
        lambda c: c.network.coherence_s == 0, "network.coherence_s says how long a fade is"
    ),
    "life.come_back": _only(lambda c: c.life.leave > 0, "life.leave is 0, so nobody leaves"),
    "life.sample_fraction": _only(lambda c: c.life.sample_count == 0, "life.sample_count says how many take part"),
    "life.idle_s": _only(
        lambda c: bool(c.life.loses_ues or c.life.edge_death or c.network.trace), "somebody is always there"
    ),
}


def _value(config: Config, place: str) -> Any:
    section, name = place.split(".")
    return name_of(getattr(getattr(config, section), name))


def _shown(value: Any) -> str:
    plain = value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
    return f'"{plain}"' if isinstance(plain, str) else str(plain)
