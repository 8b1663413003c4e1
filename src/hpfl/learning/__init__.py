"""Models, personalised objectives and the gradients of many UEs at once."""

from hpfl.learning import objectives as _objectives  # noqa: F401  fills the registry
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.cohort import Cohort
from hpfl.learning.counting import counted_passes
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.losses import LOSSES
from hpfl.learning.message import MessageError, Side, SideField
from hpfl.learning.metrics import DEFAULT_METRICS, METRICS, BoundMetric, TestOutputs, columns_of
from hpfl.learning.models import MODELS
from hpfl.learning.objective import OBJECTIVES, LocalTraining
from hpfl.learning.precision import Products
from hpfl.learning.task import ParameterSpec, Task, make_task
from hpfl.learning.uplink import UPLINKS, Draws, Uplink, UplinkStep, row_norms

__all__ = [
    "DEFAULT_METRICS",
    "LOSSES",
    "METRICS",
    "MODELS",
    "OBJECTIVES",
    "UPLINKS",
    "BoundMetric",
    "Cohort",
    "CohortUpdates",
    "Draws",
    "Evaluation",
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
    "TestOutputs",
    "Uplink",
    "UplinkStep",
    "columns_of",
    "counted_passes",
    "make_task",
    "row_norms",
]
