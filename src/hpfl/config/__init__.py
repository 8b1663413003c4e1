"""The whole configuration of an experiment, validated once: sections, presets, systems and their TOML form."""

from hpfl.config.differences import deciding, differences, settings
from hpfl.config.errors import ConfigError
from hpfl.config.fingerprints import fingerprint
from hpfl.config.idle import idle_settings
from hpfl.config.loading import (
    SYSTEMS,
    apply_system,
    changed,
    check_key,
    load,
    preset,
    preset_names,
    preset_text,
    toml_value,
    validated,
    varied,
    with_overrides,
    with_parts,
)
from hpfl.config.render import to_toml
from hpfl.config.resolved import Experiment, resolve
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
    "Experiment",
    "LearningConfig",
    "NetworkConfig",
    "PlanningConfig",
    "TrainingConfig",
    "apply_system",
    "changed",
    "check_key",
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
    "toml_value",
    "validated",
    "varied",
    "with_overrides",
    "with_parts",
]
