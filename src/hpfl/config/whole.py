"""One experiment's configuration: all sections, what they demand of each other, and what of it was set."""

from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from hpfl.config.fields import Section
from hpfl.config.hostile import HostileConfig, check_hostile
from hpfl.config.life import LifeConfig
from hpfl.config.named import OPTIONS, rows_of, slots_of
from hpfl.config.old_keys import RenewedSection
from hpfl.config.private import PrivacyConfig, check_privacy
from hpfl.config.rule_needs import check_rules
from hpfl.config.sections import (
    DataConfig,
    EvaluationConfig,
    LearningConfig,
    NetworkConfig,
    PlanningConfig,
    TrainingConfig,
)
from hpfl.config.secure import SecureConfig, check_secure
from hpfl.config.uplinks import AUTO, check_order, num_codecs
from hpfl.data.partition import PARTITIONERS
from hpfl.data.sources import DATASETS, is_registered
from hpfl.learning import METHODS, OBJECTIVES
from hpfl.options import OptionError
from hpfl.planning.planner_options import ScriptedOptions
from hpfl.training.clock import CLOCKS


class Config(Section):
    """One experiment, as it is written."""

    network: NetworkConfig = Field(default_factory=NetworkConfig, description="the radio and the machines")
    data: DataConfig = Field(default_factory=DataConfig, description="which data, and who has which")
    learning: LearningConfig = Field(default_factory=LearningConfig, description="the model and how a UE learns")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="the rounds")
    planning: PlanningConfig = Field(default_factory=PlanningConfig, description="who uploads, with how many Hz")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="what is measured")
    life: LifeConfig = Field(default_factory=LifeConfig, description="what changes from round to round")
    hostile: HostileConfig = Field(default_factory=HostileConfig, description="who is hostile, in a simulation")
    secure: SecureConfig = Field(default_factory=SecureConfig, description="what an edge may learn of its UEs")
    privacy: PrivacyConfig = Field(default_factory=PrivacyConfig, description="what leaves a cell, and what that tells")
    _shipped: dict[str, Any] = PrivateAttr(default_factory=dict)  # what the preset it began as says, by section.key
    _asked: frozenset[str] = PrivateAttr(default=frozenset())  # the keys of overrides

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._meant() == other._meant()

    __hash__ = None  # type: ignore[assignment]  # it may change

    def tree(self) -> dict[str, Any]:
        """All of it as plain data, from which it can be made again."""
        return {name: getattr(self, name).tree() for name in type(self).model_fields}

    def was_set(self, *places: str) -> bool:
        """Whether any of these keys was set: by an override, or to another value than the default's or the preset's.

        An option, as `planning.planner_options.script`, was set where it is other than by default.
        """
        return any(place in self._asked or self._differs(*place.split(".")) for place in places)

    def _differs(self, section: str, name: str, option: str = "") -> bool:
        model = getattr(self, section)
        if option:
            return option in model.told(name.removesuffix(OPTIONS))
        value = getattr(model, name)
        default = type(model).model_fields[name].default
        return bool(value != default) and bool(value != self._shipped.get(f"{section}.{name}", default))

    def _meant(self) -> dict[str, Any]:
        """The tree without options that are as by default."""
        tree = self.tree()
        for section, own in tree.items():
            model = getattr(self, section)
            own.update({slot + OPTIONS: model.told(slot) for slot in slots_of(type(model))})
        return tree

    def like(self, other: "Config") -> "Config":
        """This configuration, made from another one: what was set there still was."""
        self._shipped, self._asked = other._shipped, other._asked
        return self

    @model_validator(mode="after")
    def _options_fit(self) -> "Config":
        faults = [line for name in type(self).model_fields for line in _faults(getattr(self, name))]
        if faults:
            raise ValueError("\n".join(faults))
        _check_method(self)
        return self

    @model_validator(mode="after")
    def _times_agree(self) -> "Config":
        if CLOCKS.part(self.training.clock).traits["continuous"]:
            return self
        if self.training.trigger == "first":
            raise ValueError('training.trigger is "first"; that needs training.clock = "event"')
        if self.network.coherence_s:
            raise ValueError(
                f'network.coherence_s is given; with training.clock = "{self.training.clock}" give '
                "network.coherence_rounds"
            )
        return self

    @model_validator(mode="after")
    def _codecs_come_last(self) -> "Config":
        check_order(rows_of(type(self.learning))["uplink"].chosen(self.learning.uplink))
        return self

    @model_validator(mode="after")
    def _counts_agree(self) -> "Config":
        given = self.network.ues_per_edge
        if isinstance(given, list) and len(given) != self.network.edges:
            raise ValueError(f"network.ues_per_edge lists {len(given)} edges; network.edges is {self.network.edges}")
        if not self.network.backhaul and self.network.edges != 1:
            raise ValueError(
                f"network.backhaul is false; that needs one edge, not network.edges = {self.network.edges}"
            )
        check_rules(self)
        check_hostile(self.hostile, self.network.ues_of_edges)
        check_secure(self)
        _check_newcomers(self)
        check_privacy(self)
        return self

    @model_validator(mode="after")
    def _downlink_has_power(self) -> "Config":
        network = self.network
        if network.reuse > network.edges:
            raise ValueError(f"network.reuse is {network.reuse}; there are network.edges = {network.edges} cells")
        names = ("cloud_power_w", "edge_down_power_w") if network.backhaul else ("edge_down_power_w",)
        silent = [name for name in names if getattr(network, name) == 0]
        if network.downlink == "charged" and silent:
            raise ValueError(f'network.{silent[0]} is 0 W; network.downlink = "charged" needs a transmit power')
        return self

    @model_validator(mode="after")
    def _digits_suffice(self) -> "Config":
        dtype, gradient = self.learning.dtype, getattr(self.learning.options("method"), "gradient", None)
        if dtype in ("tf32", "bf16") and gradient and OBJECTIVES.part(gradient).traits["differences"]:
            raise ValueError(
                f'learning.dtype is "{dtype}"; learning.method_options.gradient = "{gradient}" takes differences of '
                'gradients, which such few digits do not carry: give "float32", or the gradient "exact"'
            )
        return self

    @model_validator(mode="after")
    def _hearing_known(self) -> "Config":
        codecs = num_codecs(rows_of(LearningConfig)["uplink"].chosen(self.learning.uplink))
        whole = not codecs and self.learning.uplink != AUTO
        self.planning._hearing_is_free = self.network.downlink == "free" and whole
        return self

    @model_validator(mode="after")
    def _sketches_exist(self) -> "Config":
        if self.planning.importance == "sketch" and not self.planning.sketch_size:
            raise ValueError('planning.importance is "sketch"; that needs a planning.sketch_size of at least 1')
        return self

    @model_validator(mode="after")
    def _script_fits(self) -> "Config":
        options = self.planning.options("planner")
        named = {edge for edges in options.script for edge in edges} if isinstance(options, ScriptedOptions) else set()
        if named and max(named) >= self.network.edges:
            place = "planning.planner_options.script"
            raise ValueError(f"{place} names edge {max(named)}; there are edges 0 to {self.network.edges - 1}")
        return self

    @model_validator(mode="after")
    def _labels_exist(self) -> "Config":
        if not is_registered(self.data.dataset):
            return self  # the owners of such samples have the labels they have
        classes, wanted = DATASETS.part(self.data.dataset).made.num_classes, self.data.labels_per_ue
        asks = "labels_per_ue" in (PARTITIONERS.part(self.data.partitioner).traits["reads"] or ())
        if classes is not None and asks and wanted > classes:
            raise ValueError(f"data.labels_per_ue is {wanted}; {self.data.dataset} has {classes} classes")
        return self


def _check_method(config: Config) -> None:
    """Refuse local work that the method cannot do."""
    name, traits = config.learning.method, METHODS.traits_of(config.learning.method)
    if config.learning.local_epochs and not traits["epochs"]:
        raise ValueError(
            f"learning.local_epochs is {config.learning.local_epochs}; method {name} does not say that it can leave "
            "out the steps of a UE that has fewer samples than others: give learning.local_steps"
        )
    if config.training.edge_rounds > 1 and traits["counts_ues"]:
        raise ValueError(
            f"training.edge_rounds is {config.training.edge_rounds}; method {name} knows of one mean a round"
        )


def _check_newcomers(config: Config) -> None:
    """Refuse to hold so many UEs out that an edge has none left; own samples say first how many there are."""
    wanted, most = config.data.held_out_ues, config.network.num_ues - config.network.edges
    if wanted > most and (is_registered(config.data.dataset) or config.data.signature):
        raise ValueError(
            f"data.held_out_ues is {wanted}; of {config.network.num_ues} UEs at most {most} can be held out, for "
            f"each of {config.network.edges} edges needs one that trains"
        )


def _faults(section: RenewedSection) -> list[str]:
    """A line for everything that is wrong with the options of a section's parts."""
    slots, lines = slots_of(type(section)), []
    given = {(name, getattr(section, name)): getattr(section, name + OPTIONS) for name in slots}
    waiting = {(old.key, old.part): {old.option: section._unread[old.name]} for old in section.unread_keys()}
    for (name, chosen), options in [*given.items(), *waiting.items()]:
        try:
            slots[name].read(chosen, options)
        except OptionError as error:
            place = f"{section.section}.{name}{OPTIONS}"
            lines += [f"{place}{fault.where}{fault.said}" for fault in error.faults]
    return lines
