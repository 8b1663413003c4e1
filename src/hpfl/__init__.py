"""Hierarchical personalised federated learning over mobile edge networks.

config = hpfl.preset("quickstart")
config.network.bandwidth_hz = 2e6
result = hpfl.run(config)
result.rounds, result.summary
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpfl.config import Config, ConfigError, Experiment, load, preset, resolve
    from hpfl.data.dataset import DatasetError
    from hpfl.data.federated import FederatedData
    from hpfl.experiment import Hooks, RunResult, run
    from hpfl.options import Options, option
    from hpfl.planning.checking import PlanError
    from hpfl.planning.planners import PLANNERS, plan
    from hpfl.planning.problem import Plan, RoundProblem
    from hpfl.planning.rules import ProblemError
    from hpfl.registry import part

__version__ = "0.1.0"

_PLACES = {
    "hpfl.config": ("Config", "ConfigError", "Experiment", "load", "preset", "resolve"),
    "hpfl.data.dataset": ("DatasetError",),
    "hpfl.data.federated": ("FederatedData",),
    "hpfl.experiment": ("Hooks", "RunResult", "run"),
    "hpfl.options": ("Options", "option"),
    "hpfl.planning.checking": ("PlanError",),
    "hpfl.planning.planners": ("PLANNERS", "plan"),
    "hpfl.planning.problem": ("Plan", "RoundProblem"),
    "hpfl.planning.rules": ("ProblemError",),
    "hpfl.registry": ("part",),
}
"""Where each name is found: a module is imported when one of its names is asked for, for PyTorch takes a second."""

__all__ = [
    "PLANNERS",
    "Config",
    "ConfigError",
    "DatasetError",
    "Experiment",
    "FederatedData",
    "Hooks",
    "Options",
    "Plan",
    "PlanError",
    "ProblemError",
    "RoundProblem",
    "RunResult",
    "__version__",
    "load",
    "option",
    "part",
    "plan",
    "preset",
    "resolve",
    "run",
]


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module), name)
            return found
    if not name.startswith("_") and find_spec(f"hpfl.{name}") is not None:
        return import_module(f"hpfl.{name}")
    raise AttributeError(f"module 'hpfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
