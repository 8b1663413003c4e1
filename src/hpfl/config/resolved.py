"""An experiment: a configuration that has been checked whole once, with nothing left open, and that stays as it is."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hpfl.config.errors import ConfigError
from hpfl.config.hostile import HostileConfig
from hpfl.config.life import LifeConfig
from hpfl.config.loading import validated
from hpfl.config.named import rows_of, slots_of
from hpfl.config.private import PrivacyConfig
from hpfl.config.sections import (
    DataConfig,
    EvaluationConfig,
    LearningConfig,
    NetworkConfig,
    PlanningConfig,
    TrainingConfig,
)
from hpfl.config.secure import SecureConfig
from hpfl.config.whole import Config
from hpfl.registry import Part, Registry


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The sections, with what "auto" comes to filled in; they cannot be changed.

    `phi` is the scale of importance, `adaptation_lr` the step of the personalised accuracy. `written` is what the user
    wrote.
    """

    network: NetworkConfig
    data: DataConfig
    learning: LearningConfig
    training: TrainingConfig
    planning: PlanningConfig
    evaluation: EvaluationConfig
    life: LifeConfig
    hostile: HostileConfig
    secure: SecureConfig
    privacy: PrivacyConfig
    phi: float
    adaptation_lr: float
    written: Config = field(compare=False, repr=False)

    @cached_property
    def fingerprint(self) -> str:
        """A short name for everything that decides a run's numbers."""
        from hpfl.config.fingerprints import digest

        return digest(self)

    def part(self, place: str) -> Any:
        """The part that a key names, with its options: `experiment.part("planning.planner")`."""
        section, name = place.split(".")
        return getattr(self, section).bound(name)

    def made(self, place: str, *given: Any) -> Any:
        """What the part that a key names makes of what it is given: `experiment.made("network.channel", settings)`."""
        section, name = place.split(".")
        model = getattr(self, section)
        slot, thing = slots_of(type(model))[name], self.part(place)(*given)
        return _checked(slot.registry, place, getattr(model, name), thing)

    def made_in_row(self, place: str, *given: Any) -> tuple[tuple[str, Any], ...]:
        """Name, and what it makes, of each part that a key names in a row: `made_in_row("learning.uplink")`."""
        section, name = place.split(".")
        registry = rows_of(type(getattr(self, section)))[name].registry
        return tuple((name, _checked(registry, place, name, made(*given))) for name, made in self.parts(place))

    def parts(self, place: str) -> tuple[tuple[str, Any], ...]:
        """Name and part, with its options, of each that a key names in a row: `experiment.parts("learning.uplink")`."""
        return tuple((part.name, part.bound(options)) for part, options in self.chosen(place))

    def chosen(self, place: str) -> tuple[tuple[Part[Any], Any], ...]:
        """Each part that a key names in a row, with its traits, and its validated options."""
        section, name = place.split(".")
        model = getattr(self, section)
        return rows_of(type(model))[name].chosen(getattr(model, name))


def resolve(config: Config | Experiment) -> Experiment:
    """Check a configuration whole (fields may have been assigned) and fill in what `auto` means; once is enough."""
    if isinstance(config, Experiment):
        return config
    whole = validated(config.tree()).like(config)
    phi = whole.planning.phi if isinstance(whole.planning.phi, float) else _usual_phi(whole)
    given_lr = whole.evaluation.inner_lr
    adaptation_lr = given_lr if isinstance(given_lr, float) else whole.learning.inner_lr
    whole.planning.phi, whole.evaluation.inner_lr = phi, adaptation_lr
    sections: dict[str, Any] = {name: getattr(whole, name).sealed() for name in Config.model_fields}
    return Experiment(**sections, phi=phi, adaptation_lr=adaptation_lr, written=config)


def _checked(registry: Registry[Any], place: str, name: Any, thing: Any) -> Any:
    """A thing that a part has made, if it is of the part's kind."""
    lacks = registry.lacking(thing)
    if lacks:
        raise ConfigError(f"{place} is {name!r}; that makes no {registry.kind}: a {type(thing).__name__} lacks {lacks}")
    return thing


def _usual_phi(config: Config) -> float:
    """Theorem 1's 5 beta S^2 / A."""
    return 5.0 * config.learning.outer_lr * config.planning.staleness_bound**2 / _edges_wanted(config)


def _edges_wanted(config: Config) -> int:
    """The cap A, no higher than the number of edges; one edge alone leaves nothing to weigh, and A as it is."""
    cap, there = config.planning.max_edges, config.network.edges
    return min(cap, there) if there > 1 else cap
