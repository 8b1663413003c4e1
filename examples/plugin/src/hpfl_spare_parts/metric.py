"""Metric `calibration-error`: how far a model's confidence is from how often it is right (Guo et al., 2017)."""

import torch
from torch.nn.functional import one_hot

from hpfl import part
from hpfl.learning import TestOutputs
from hpfl.options import Options, option


class CalibrationOptions(Options):
    """Options of metric `calibration-error`."""

    bins: int = option(10, "bins of equal width in which confidence is compared", ge=1, le=1000)


@part(options=CalibrationOptions, columns=("personalised_calibration_error", "calibration_error"), worst="high")
def calibration_error(tests: TestOutputs, *, options: CalibrationOptions) -> torch.Tensor:
    """Expected calibration error: the mean gap between confidence and accuracy, over bins of confidence."""
    if tests.targets.is_floating_point():  # no classes
        return torch.full_like(tests.weights[:, 0], torch.nan)
    sure, answer = tests.outputs.softmax(dim=-1).max(dim=-1)
    gap = ((answer == tests.targets).to(sure.dtype) - sure) * tests.weights
    where = (sure * options.bins).long().clamp(max=options.bins - 1)
    return (gap.unsqueeze(2) * one_hot(where, options.bins)).sum(dim=1).abs().sum(dim=1)
