"""What a configuration means for sums under masks: how long they are, of how many bits, from which codecs."""

from collections.abc import Sequence

from hpfl.config import ConfigError, Experiment
from hpfl.dealing import most_dealt
from hpfl.learning import LearningError
from hpfl.learning.codecs.random_k import RandomK
from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.codecs.ternary import Ternary
from hpfl.learning.masking.cell_sum import CellSum
from hpfl.learning.masking.fixed_point import num_levels
from hpfl.learning.method import num_travelling
from hpfl.learning.sending import Sending
from hpfl.learning.uplink import UplinkStep


def cell_sum_of(config: Experiment, sending: Sending, *, most_samples: int = 0) -> CellSum | None:
    """What the UEs of a cell add up of their updates; None: they send them one by one.

    `most_samples` is what a UE may have at most; 0: as many as the experiment deals to one.
    """
    if not config.secure.on:
        return None
    steps = [step for chain in sending.codings for _, step in chain.steps]
    return _checked(
        length=num_travelling(sending.method, sending.spec),
        most_weight=most_weight(config, most_samples),
        largest=config.secure.range,
        first=config.secure.first_scale,
        **_levels(config, steps),
        sparse=next((step for step in steps if isinstance(step, RandomK)), None),
        places=sending.places,
    )


def sketch_sum_of(config: Experiment, width: int, largest: float, *, most_samples: int = 0) -> CellSum | None:
    """The same of sketches of `width` numbers, the magnitude of which is not above `largest`."""
    if not config.secure.on:
        return None
    weight, count = most_weight(config, most_samples), num_levels(config.secure.bits)
    return _checked(length=width, most_weight=weight, largest=largest, count=count)


def most_weight(config: Experiment, most_samples: int = 0) -> int:
    """W: what the weights of all UEs of the largest cell add up to at most."""
    each = 1 if config.training.weighting == "uniform" else most_samples or most_dealt(config)
    return int(config.network.ues_of_edges.max()) * each


def _levels(config: Experiment, steps: Sequence[UplinkStep]) -> dict[str, int]:
    """Levels of a codec, and numbers to a scale; without one, those of `secure.bits`."""
    for step in steps:
        if isinstance(step, Rounding | Ternary):
            return {"count": step.num_levels, "bucket": step.bucket}
    return {"count": num_levels(config.secure.bits)}


def _checked(**settings: object) -> CellSum:
    try:
        return CellSum(**settings)  # type: ignore[arg-type]
    except LearningError as error:
        raise ConfigError(f'secure.aggregation is "cell": {error}; lower secure.bits') from error
