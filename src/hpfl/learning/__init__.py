"""Models, personalised objectives and the gradients of many UEs at once."""

from hpfl.learning import codecs as _codecs  # noqa: F401  fills the registry
from hpfl.learning import methods as _methods  # noqa: F401  fills the registry
from hpfl.learning import objectives as _objectives  # noqa: F401  fills the registry
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.cohort import Cohort
from hpfl.learning.computes import Computes
from hpfl.learning.counting import counted_passes
from hpfl.learning.draws import Draws
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.kept import Kept
from hpfl.learning.losses import LOSSES
from hpfl.learning.message import MessageError, Side, SideField
from hpfl.learning.method import METHODS, BaseMethod, Local, Method, UeCalculus, descended, num_travelling, with_entries
from hpfl.learning.metrics import DEFAULT_METRICS, METRICS, BoundMetric, TestOutputs, columns_of
from hpfl.learning.models import MODELS
from hpfl.learning.objective import OBJECTIVES, Calculus, Gradient, LocalTraining, MetaGradient
from hpfl.learning.precision import Products
from hpfl.learning.recorded import RecordedCohort, make_cohort, recorded
from hpfl.learning.task import ParameterSpec, Task, make_task
from hpfl.learning.uplink import UPLINKS, Uplink, UplinkStep, row_norms

__all__ = [
    "DEFAULT_METRICS",
    "LOSSES",
    "METHODS",
    "METRICS",
    "MODELS",
    "OBJECTIVES",
    "UPLINKS",
    "BaseMethod",
    "BoundMetric",
    "Calculus",
    "Cohort",
    "CohortUpdates",
    "Computes",
    "Draws",
    "Evaluation",
    "Gradient",
    "Kept",
    "LearningError",
    "Local",
    "LocalTraining",
    "MessageError",
    "MetaGradient",
    "Method",
    "NonFiniteUpdateError",
    "ParameterSpec",
    "Products",
    "RecordedCohort",
    "Side",
    "SideField",
    "Task",
    "TestData",
    "TestOutputs",
    "UeCalculus",
    "Uplink",
    "UplinkStep",
    "columns_of",
    "counted_passes",
    "descended",
    "make_cohort",
    "make_task",
    "num_travelling",
    "recorded",
    "row_norms",
    "with_entries",
]
