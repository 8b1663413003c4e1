"""One experiment's configuration: all sections, what they demand of each other, and what of it was set."""

from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from hpfl.config.fields import Section
from hpfl.config.life import LifeConfig
from hpfl.config.sections import (
    DataConfig,
    EvaluationConfig,
    LearningConfig,
    NetworkConfig,
    PlanningConfig,
    TrainingConfig,
)
from hpfl.data.sources import DATASETS, is_registered


class Config(Section):
    """One experiment."""

    network: NetworkConfig = Field(default_factory=NetworkConfig, description="the radio and the machines")
    data: DataConfig = Field(default_factory=DataConfig, description="which data, and who has which")
    learning: LearningConfig = Field(default_factory=LearningConfig, description="the model and its objective")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="the rounds")
    planning: PlanningConfig = Field(default_factory=PlanningConfig, description="who uploads, with how many Hz")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="what is measured")
    life: LifeConfig = Field(default_factory=LifeConfig, description="what changes from round to round")
    _shipped: dict[str, Any] = PrivateAttr(default_factory=dict)  # what the preset it began as says, by section.key
    _asked: frozenset[str] = PrivateAttr(default=frozenset())  # the keys of overrides

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # it may change

    def was_set(self, *places: str) -> bool:
        """Whether any of these keys was set: by an override, or to another value than the default's or the preset's."""
        return any(place in self._asked or self._differs(*place.split(".")) for place in places)

    def _differs(self, section: str, name: str) -> bool:
        model = getattr(self, section)
        value = getattr(model, name)
        default = type(model).model_fields[name].default
        return bool(value != default) and bool(value != self._shipped.get(f"{section}.{name}", default))

    def like(self, other: "Config") -> "Config":
        """This configuration, made from another one: what was set there still was."""
        self._shipped, self._asked = other._shipped, other._asked
        return self

    @model_validator(mode="after")
    def _times_agree(self) -> "Config":
        if self.training.clock == "event":
            return self
        if self.training.trigger == "first":
            raise ValueError('training.trigger is "first"; that needs training.clock = "event"')
        if self.network.coherence_s:
            raise ValueError(
                'network.coherence_s is given; with training.clock = "round" give network.coherence_rounds'
            )
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
        return self

    @model_validator(mode="after")
    def _digits_suffice(self) -> "Config":
        dtype = self.learning.dtype
        if dtype in ("tf32", "bf16") and self.learning.objective == "hessian-free":
            raise ValueError(
                f'learning.dtype is "{dtype}"; learning.objective = "hessian-free" takes differences of gradients, '
                'which such few digits do not carry: give "float32", or the objective "exact"'
            )
        return self

    @model_validator(mode="after")
    def _sketches_exist(self) -> "Config":
        if self.planning.importance == "sketch" and not self.planning.sketch_size:
            raise ValueError('planning.importance is "sketch"; that needs a planning.sketch_size of at least 1')
        return self

    @model_validator(mode="after")
    def _script_fits(self) -> "Config":
        named = {edge for edges in self.planning.script for edge in edges}
        if named and self.planning.planner != "scripted":
            raise ValueError(
                f'planning.script is given; planning.planner should be "scripted", not "{self.planning.planner}"'
            )
        if named and max(named) >= self.network.edges:
            raise ValueError(f"planning.script names edge {max(named)}; there are edges 0 to {self.network.edges - 1}")
        return self

    @model_validator(mode="after")
    def _labels_exist(self) -> "Config":
        if not is_registered(self.data.dataset):
            return self  # the owners of such samples have the labels they have
        classes, wanted = DATASETS.get(self.data.dataset).num_classes, self.data.labels_per_ue
        if classes is not None and self.data.partitioner == "labels" and wanted > classes:
            raise ValueError(f"data.labels_per_ue is {wanted}; {self.data.dataset} has {classes} classes")
        return self
