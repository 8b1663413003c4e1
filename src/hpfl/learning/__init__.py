"""Models, personalised objectives and the gradients of many UEs at once."""

from hpfl.learning import objectives as _objectives  # noqa: F401  fills the registry
from hpfl.learning.answers import CohortUpdates, Evaluation, TestData
from hpfl.learning.cohort import Cohort
from hpfl.learning.computes import Computes
from hpfl.learning.counting import counted_passes
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.kept import Kept
from hpfl.learning.losses import LOSSES
from hpfl.learning.message import MessageError, Side, SideField
from hpfl.learning.models import MODELS
from hpfl.learning.objective import OBJECTIVES, LocalTraining
from hpfl.learning.precision import Products
from hpfl.learning.task import ParameterSpec, Task, make_task
from hpfl.learning.uplink import UPLINKS, Draws, Uplink, UplinkStep, row_norms

__all__ = [
    "LOSSES",
    "MODELS",
    "OBJECTIVES",
    "UPLINKS",
    "Cohort",
    "CohortUpdates",
    "Computes",
    "Draws",
    "Evaluation",
    "Kept",
    "LearningError",
    "LocalTraining",
    "MessageError",
    "NonFiniteUpdateError",
    "ParameterSpec",
    "Products",
    "Side",
    "SideField",
    "Task",
    "TestData",
    "Uplink",
    "UplinkStep",
    "counted_passes",
    "make_task",
    "row_norms",
]
