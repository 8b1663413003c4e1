"""The whole configuration of an experiment, validated once: sections, presets, systems and their TOML form."""

from hpfl.config.differences import deciding, differences, settings
from hpfl.config.errors import ConfigError
from hpfl.config.idle import idle_settings
from hpfl.config.loading import (
    SYSTEMS,
    apply_system,
    load,
    preset,
    preset_names,
    preset_text,
    resolve,
    validated,
    with_overrides,
)
from hpfl.config.render import fingerprint, to_toml
from hpfl.config.sections import (
    DataConfig,
    EvaluationConfig,
    LearningConfig,
    NetworkConfig,
    PlanningConfig,
    TrainingConfig,
)
from hpfl.config.whole import Config

__all__ = [
    "SYSTEMS",
    "Config",
    "ConfigError",
    "DataConfig",
    "EvaluationConfig",
    "LearningConfig",
    "NetworkConfig",
    "PlanningConfig",
    "TrainingConfig",
    "apply_system",
    "deciding",
    "differences",
    "fingerprint",
    "idle_settings",
    "load",
    "preset",
    "preset_names",
    "preset_text",
    "resolve",
    "settings",
    "to_toml",
    "validated",
    "with_overrides",
]
