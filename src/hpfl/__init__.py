"""Hierarchical personalised federated learning over mobile edge networks.

config = hpfl.preset("quickstart")
config.network.bandwidth_hz = 2e6
result = hpfl.run(config)
result.rounds, result.summary
"""

__version__ = "0.1.0"

from hpfl.config import Config, ConfigError, load, preset
from hpfl.data.dataset import DatasetError
from hpfl.data.federated import FederatedData
from hpfl.experiment import Hooks, run
from hpfl.planning.checking import PlanError
from hpfl.planning.planners import PLANNERS, plan
from hpfl.planning.problem import Plan, RoundProblem
from hpfl.planning.rules import ProblemError
from hpfl.training.watching import RunResult, Watcher

__all__ = [
    "PLANNERS",
    "Config",
    "ConfigError",
    "DatasetError",
    "FederatedData",
    "Hooks",
    "Plan",
    "PlanError",
    "ProblemError",
    "RoundProblem",
    "RunResult",
    "Watcher",
    "__version__",
    "load",
    "plan",
    "preset",
    "run",
]
