"""Errors that say in a sentence what to do, so that nobody needs a traceback."""

import functools
from typing import NoReturn

from hpfl.config import ConfigError
from hpfl.data.dataset import DatasetError
from hpfl.data.shards import PartitionError
from hpfl.learning import LearningError, NonFiniteUpdateError
from hpfl.network.radio import ChannelError
from hpfl.planning.bandwidth import InfeasibleError
from hpfl.planning.checking import PlanError
from hpfl.planning.deadline import ConvergenceError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError
from hpfl.row_files import RowFileError
from hpfl.tracebacks import short_traceback
from hpfl.training.cloud_step import DivergedError
from hpfl.training.combine import CombineError

REFUSALS = (
    ConfigError,
    DatasetError,
    PartitionError,
    CheckpointError,
    OutputError,
    RowFileError,
    LearningError,
    ChannelError,
    InfeasibleError,
    ConvergenceError,
    PlanError,
    CombineError,
)
"""What was asked for cannot be done."""
LOST = (DivergedError, NonFiniteUpdateError)
"""The model was lost on the way."""
_ALL_IS_SAID = (ConfigError, CheckpointError, OutputError, RowFileError)


def tell(error: Exception) -> NoReturn:
    """Raise such an error again: short in a notebook, and without what led to it where the sentence says it all."""
    if not hasattr(error, "_render_traceback_"):
        error._render_traceback_ = functools.partial(short_traceback, error)  # type: ignore[attr-defined]
    if isinstance(error, _ALL_IS_SAID):
        raise error.with_traceback(None) from None
    raise error
