"""Hierarchical personalised federated learning over mobile edge networks.

config = hpfl.preset("quickstart")
config.network.bandwidth_hz = 2e6
result = hpfl.run(config)
result.rounds.to_frame(), result.summary, result.plot()
"""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.config import Config, ConfigError, Experiment, load, preset, resolve
    from hpfl.data.dataset import DatasetError
    from hpfl.data.federated import FederatedData
    from hpfl.experiment import Hooks
    from hpfl.interactive import run
    from hpfl.options import Options, option
    from hpfl.planning import PLANNERS, Plan, PlanError, ProblemError, RoundProblem, plan
    from hpfl.registry import part
    from hpfl.reporting.shown_result import open_run
    from hpfl.sweeps.sweep_door import sweep
    from hpfl.training.watching import RunResult, Watcher
    from hpfl.tuning.tune_door import tune

__version__ = "0.1.0"

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
    "Watcher",
    "__version__",
    "load",
    "open_run",
    "option",
    "part",
    "plan",
    "preset",
    "resolve",
    "run",
    "sweep",
    "tune",
]

_KNOWN_BY = {
    "hpfl.config": ("Config", "ConfigError", "Experiment", "load", "preset", "resolve"),
    "hpfl.data.dataset": ("DatasetError",),
    "hpfl.data.federated": ("FederatedData",),
    "hpfl.experiment": ("Hooks",),
    "hpfl.interactive": ("run",),
    "hpfl.options": ("Options", "option"),
    "hpfl.planning": ("PLANNERS", "Plan", "PlanError", "ProblemError", "RoundProblem", "plan"),
    "hpfl.registry": ("part",),
    "hpfl.reporting.shown_result": ("open_run",),
    "hpfl.sweeps.sweep_door": ("sweep",),
    "hpfl.training.watching": ("RunResult", "Watcher"),
    "hpfl.tuning.tune_door": ("tune",),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)  # planning starts without PyTorch
