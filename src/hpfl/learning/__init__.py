"""Models, personalised objectives and the gradients of many UEs at once."""

from hpfl.learning import objectives as _objectives  # noqa: F401  fills the registry
from hpfl.learning.answers import CohortUpdates, Evaluation, TestData
from hpfl.learning.cohort import Cohort, NonFiniteUpdateError
from hpfl.learning.computes import Computes
from hpfl.learning.counting import counted_passes
from hpfl.learning.faults import LearningError
from hpfl.learning.kept import Kept
from hpfl.learning.losses import LOSSES
from hpfl.learning.models import MODELS
from hpfl.learning.objective import OBJECTIVES, LocalTraining
from hpfl.learning.precision import Products
from hpfl.learning.task import ParameterSpec, Task, make_task

__all__ = [
    "LOSSES",
    "MODELS",
    "OBJECTIVES",
    "Cohort",
    "CohortUpdates",
    "Computes",
    "Evaluation",
    "Kept",
    "LearningError",
    "LocalTraining",
    "NonFiniteUpdateError",
    "ParameterSpec",
    "Products",
    "Task",
    "TestData",
    "counted_passes",
    "make_task",
]
