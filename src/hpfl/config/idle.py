"""Settings that were given and that no chosen part reads, so that nobody believes they did something."""

from collections.abc import Callable
from typing import Any

from hpfl.config.given import name_of
from hpfl.config.named import OPTIONS, rows_of, slots_of
from hpfl.config.old_keys import was
from hpfl.config.private import PrivacyConfig
from hpfl.config.resolved import Experiment
from hpfl.config.whole import Config
from hpfl.learning import METHODS

Reason = Callable[[Config, bool], str]
"""Why nothing reads a key in this configuration, where samples have owners or not; empty where something does."""


def idle_settings(given: Config | Experiment, *, owned: bool = False) -> tuple[str, ...]:
    """A sentence for every key that was set and changes nothing; "auto" is no setting. `owned` samples have owners."""
    config = given.written if isinstance(given, Experiment) else given
    found = []
    for place, reason in _REASONS.items():
        why = reason(config, owned) if config.was_set(place) else ""
        if why:
            found.append(f"{_called(config, place)} = {_shown(_value(config, place))} changes nothing: {why}")
    return (*found, *_unread(config), *_beyond(config))


def _unread(config: Config) -> list[str]:
    """Keys that another part than the chosen one would read."""
    sections = [getattr(config, name) for name in type(config).model_fields]
    return [
        f"{old.old} = {_shown(section._unread[old.name])} changes nothing: only {old.key} {old.part} reads it"
        for section in sections
        for old in section.unread_keys()
    ]


def _reads(config: Config, place: str) -> tuple[str, ...] | None:
    """What the part that a key names says it reads; None: it may read everything."""
    section, name = place.split(".")
    model = getattr(config, section)
    chosen = slots_of(type(model))[name].found(getattr(model, name))
    reads = None if chosen is None else chosen.traits.get("reads")
    found: tuple[str, ...] | None = reads(model.options(name)) if callable(reads) else reads
    return found


def _ignores(config: Config, place: str, *keys: str) -> bool:
    """Whether the part that is named at `place` reads none of the keys."""
    reads = _reads(config, place)
    return reads is not None and not set(reads) & set(keys)


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
    idle = _ignores(config, "planning.planner", "rho", "phi")
    return f"planner {config.planning.planner} does not weigh importance against latency" if idle else ""


def _no_cap(config: Config, owned: bool) -> str:
    if config.training.trigger == "first":
        return ""
    if config.network.edges == 1:
        return "there is one edge"
    idle = _ignores(config, "planning.planner", "max_edges")
    return f"planner {config.planning.planner} has a number of its own" if idle else ""


def _no_sketches(config: Config, owned: bool) -> str:
    planning = config.planning
    wanted = planning.sketches or not planning.sketch_size or _reads(config, "planning.planner") is None
    return "" if wanted else f'planner {planning.planner} needs no sketches, and planning.importance is "exact"'


def _no_dealing(config: Config, owned: bool) -> str:
    return "the samples have owners, and are not dealt" if owned else ""


def _not_dealt_by(key: str) -> Reason:
    def reason(config: Config, owned: bool) -> str:
        other = _ignores(config, "data.partitioner", key)
        return _no_dealing(config, owned) or (f"partitioner {config.data.partitioner} does not ask" if other else "")

    return reason


def _no_path_asks(key: str, *hops: str) -> Reason:
    """No path loss reads it: of a hop, or of all there are."""

    def reason(config: Config, owned: bool) -> str:
        there = [hop for hop in hops if config.network.backhaul or hop != _EDGE_HOP]
        asked = [hop for hop in there if not _ignores(config, f"network.{hop}", key)]
        names = " and ".join(dict.fromkeys(getattr(config.network, hop) for hop in there))
        return "" if asked else f"path loss {names} does not ask" if there else _BACKHAUL(config, owned)

    return reason


def _adapts(config: Config) -> bool:
    return config.learning.inner_lr > 0 and not _ignores(config, "learning.method", "inner_lr")


def _own(config: Config) -> bool:
    """Whether the method is no objective: what its options are called says nothing of what they mean."""
    return not METHODS.part(config.learning.method).traits["objective"]


_UE_HOP, _EDGE_HOP = "ue_path_loss", "edge_path_loss"
_BACKHAUL = _only(lambda c: c.network.backhaul, "there is no backhaul: the one edge is the cloud")


def _no_adaptation(config: Config, owned: bool) -> str:
    why = "learning.inner_lr is 0" if config.learning.inner_lr == 0 else f"learning.method is {config.learning.method}"
    return "" if _adapts(config) else f"{why}, so nothing is adapted"


def _no_inner_step(config: Config, owned: bool) -> str:
    ignored = _ignores(config, "learning.method", "inner_lr") and config.evaluation.inner_lr != "auto"
    return f"method {config.learning.method} does not adapt" if ignored else ""


def _not_measured(config: Config, column: str) -> str:
    chosen = rows_of(type(config.evaluation))["metrics"].chosen(config.evaluation.metrics)
    there = any(column in part.traits["columns"] for part, _ in chosen)
    return "" if there else f"no metric of evaluation.metrics gives {column}"


_REASONS: dict[str, Reason] = {
    "planning.rho": _no_weighing,
    "planning.phi": _no_weighing,
    "planning.max_edges": _no_cap,
    "planning.sketch_size": _no_sketches,
    "data.partitioner": _no_dealing,
    "data.samples_per_ue": _no_dealing,
    "data.edge_skew": _no_dealing,
    "data.disjoint": _no_dealing,
    "data.labels_per_ue": _not_dealt_by("labels_per_ue"),
    "data.concentration": _not_dealt_by("concentration"),
    "evaluation.test_samples": _no_dealing,
    "evaluation.inner_steps": _only(
        lambda c: (c.learning.inner_lr if c.evaluation.inner_lr == "auto" else c.evaluation.inner_lr) != 0,
        "evaluation.inner_lr is 0, so nothing is adapted",
    ),
    "evaluation.target_accuracy": lambda config, owned: (
        "evaluation.target_loss is the target"
        if config.evaluation.target_loss
        else _not_measured(config, "personalised_accuracy")
    ),
    "evaluation.target_loss": lambda config, owned: _not_measured(config, "personalised_test_loss"),
    "learning.local_steps": _only(lambda c: c.learning.local_epochs == 0, "learning.local_epochs is given"),
    "learning.inner_lr": _no_inner_step,
    "learning.inner_steps": _no_adaptation,
    "learning.method_options.gradient": lambda config, owned: "" if _own(config) else _no_adaptation(config, owned),
    "learning.method_options.delta": _only(
        lambda c: _own(c) or (_adapts(c) and c.learning.objective == "hessian-free"), "no central difference is taken"
    ),
    "learning.batches": _only(lambda c: c.learning.batch_size > 0, "batches are full, so they are all the same"),
    "network.ue_gain_db": _no_path_asks("gain_db", _UE_HOP),
    "network.edge_gain_db": _no_path_asks("gain_db", _EDGE_HOP),
    "network.path_loss_exponent": _no_path_asks("exponent", _UE_HOP, _EDGE_HOP),
    "network.carrier_ghz": _no_path_asks("carrier_ghz", _UE_HOP, _EDGE_HOP),
    "network.edge_power_w": _BACKHAUL,
    "network.edge_distance_m": _BACKHAUL,
    "network.edge_path_loss": _BACKHAUL,
    "network.spectrum": _BACKHAUL,
    **dict.fromkeys(
        (
            "network.reuse",
            "network.cloud_power_w",
            "network.edge_down_power_w",
            "network.ue_receive_power_w",
            "network.edge_receive_power_w",
        ),
        _only(lambda c: c.network.downlink == "charged", 'network.downlink is "free"'),
    ),
    "network.coherence_rounds": _only(
        lambda c: c.network.coherence_s == 0, "network.coherence_s says how long a fade is"
    ),
    "life.come_back": _only(lambda c: c.life.leave > 0, "life.leave is 0, so nobody leaves"),
    "life.sample_fraction": _only(lambda c: c.life.sample_count == 0, "life.sample_count says how many take part"),
    **dict.fromkeys(
        ("hostile.edges", "hostile.ues", "hostile.from_round"),
        _only(lambda c: c.hostile.on, 'hostile.attack is "none"'),
    ),
    **dict.fromkeys(
        ("secure.bits", "secure.range", "secure.first_scale", "secure.leavers"),
        _only(lambda c: c.secure.on, 'secure.aggregation is "none"'),
    ),
    **dict.fromkeys(
        [f"privacy.{name}" for name in PrivacyConfig.model_fields if name != "mechanism"],
        _only(lambda c: c.privacy.on, 'privacy.mechanism is "none"'),
    ),
    "life.idle_s": _only(
        lambda c: bool(c.life.loses_ues or c.life.edge_death or c.network.trace), "somebody is always there"
    ),
}


def _called(config: Config, place: str) -> str:
    """A key by the name it was asked for by."""
    before = was(place)
    return before if before and before in config._asked else place


def _value(config: Config, place: str) -> Any:
    section, name, *option = place.split(".")
    model = getattr(config, section)
    if not option:
        return name_of(getattr(model, name))
    options = model.options(name.removesuffix(OPTIONS))
    if hasattr(options, option[0]):
        return getattr(options, option[0])
    return getattr(model, was(place).partition(".")[2])  # given by its old name beside a part that has it not


def _shown(value: Any) -> str:
    plain = value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value
    return f'"{plain}"' if isinstance(plain, str) else str(plain)
