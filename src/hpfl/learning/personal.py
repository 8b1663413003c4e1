"""The personal model of one UE, to be taken away: what its method makes of the shared model and of what it keeps."""

import numpy as np
import torch
from torch import Tensor

from hpfl.learning.cohort import Cohort
from hpfl.learning.general import FlatCalculus
from hpfl.learning.method import Method
from hpfl.learning.objective import LocalTraining


def personal_model(
    cohort: Cohort, method: Method, params: Tensor, *, ue: int, kept: Tensor | None, training: LocalTraining
) -> Tensor:
    """The model [P] with which a UE of the cohort is evaluated; `kept` [S] is what it keeps (None: nothing)."""
    cohort.data.pack()
    batch = cohort.data.whole_batch(np.array([ue]))
    calculus = FlatCalculus(cohort.task, {"support": (batch.inputs[0], batch.targets[0], batch.weights[0])})
    with torch.no_grad():
        return method.personal(calculus, params, params[:0] if kept is None else kept, training)
