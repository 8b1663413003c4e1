"""Table `[tune]` of a study as it is written: what is searched, for what, how long, and when a run is given up."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hpfl.config import ConfigError, check_key
from hpfl.options import sentence, shown
from hpfl.sweeps.study_file import LossTarget, flat

Bound = int | float


class Range(BaseModel):
    """Numbers from `low` to `high`, both included; `log`: even in their logarithm; `step`: so far apart."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    low: Bound
    high: Bound
    log: bool = False
    step: Bound | None = None


SpaceTree = Annotated[dict[str, Any], BeforeValidator(flat)]


class TuneSettings(BaseModel):
    """What is searched for each case of a study."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    objective: str = "seconds"
    """Simulated `seconds`, `rounds`, `joules` or uplink `bits` to the target; or a column, `final_global_accuracy`."""
    target: float | LossTarget | None = None
    """Which of the study's targets; none: its last."""
    limit: Annotated[float, Field(gt=0)] | None = None
    """What a run that never arrives counts as, and where it ends: so many seconds, rounds, joules or bits."""
    better: Literal["auto", "less", "more"] = "auto"
    """Of a column; auto: less of losses, seconds, joules and bits, more of all else."""
    trials: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Trials of each case; the first has the values that the case is configured with."""
    batch: Annotated[int, Field(ge=1)] = 4
    """Trials that are chosen at once, knowing all earlier batches: whatever the number of workers, the same trials."""
    space: SpaceTree
    """Keys, each with a range or a list of values."""
    sampler: Literal["tpe", "random"] = "tpe"
    """How values are proposed: Optuna's tree-structured Parzen estimator, or at random."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the sampler."""
    mean: Literal["auto", "arithmetic", "geometric"] = "auto"
    """A trial's value over its seeds; auto: geometric of what is spent to a target, else arithmetic."""
    prune: Literal["auto", "seconds", "rounds", "off"] = "auto"
    """Give a trial up whose first seed is behind the median at a simulated second or round; auto: as counted."""
    prune_after: Annotated[float, Field(ge=0)] = 0.0
    """Seconds or rounds before which no trial is given up; in no case before the third evaluation."""
    prune_startup: Annotated[int, Field(ge=1)] = 4
    """Finished trials before any is given up."""
    fresh_seeds: Annotated[int, Field(ge=0)] | list[int] | None = None
    """Seeds that no trial has seen, on which the best and the configured values are run at last; none: as many."""


def settings_of(tree: Mapping[str, Any], where: str) -> TuneSettings:
    """The settings that plain data say, or a sentence for every fault."""
    if not tree:
        raise ConfigError(f"{where} has no table [tune]; wanted one with a space: docs/sweep.md shows one")
    try:
        return TuneSettings.model_validate(dict(tree))
    except ValidationError as error:
        raise ConfigError("\n".join(dict.fromkeys(f"{where}: {line}" for line in _lines(error)))) from None


def ranges_of(settings: TuneSettings) -> dict[str, Range | list[Any]]:
    """Every key with its range or its values, in order; empty and unknown ones are refused."""
    if not settings.space:
        raise ConfigError("tune.space names no key; wanted ranges, as learning.outer_lr = { low = 0.01, high = 1.0 }")
    return {key: _range(key, given) for key, given in settings.space.items()}


def _range(key: str, given: Any) -> Range | list[Any]:
    check_key(key)
    if key == "training.seed":
        raise ConfigError("tune.space has training.seed; wanted seeds = ... in the study")
    place = f"tune.space {key}"
    if isinstance(given, list):
        if not given:
            raise ConfigError(f"{place} has no values; wanted at least one")
        if twice := [value for at, value in enumerate(given) if value in given[:at]]:
            raise ConfigError(f"{place} has {shown(twice[0])} twice")
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place} is {shown(given)}; wanted {{ low = ..., high = ... }} or a list of values")
    try:
        found = Range.model_validate(dict(given))
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, fault['loc'][:1]))}: {sentence(fault)}" for fault in error.errors()[:1])
        raise ConfigError(f"{place} is no range ({told}); wanted low, high, and log or step") from None
    if not found.low < found.high:
        raise ConfigError(f"{place} goes from {found.low:g} to {found.high:g}, which is empty; wanted low < high")
    if found.log and found.low <= 0:
        raise ConfigError(f"{place} is log and begins at {found.low:g}; wanted low > 0")
    if found.log and found.step is not None:
        raise ConfigError(f"{place} has log and step; wanted one of them")
    if found.step is not None and found.step <= 0:
        raise ConfigError(f"{place} has step {found.step:g}; wanted step > 0")
    return found


def _lines(error: ValidationError) -> Iterator[str]:
    for fault in error.errors():
        name = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            yield f"tune.{name} is not of a search; it has {', '.join(TuneSettings.model_fields)}"
        elif fault["type"] == "missing":
            yield f"tune.{name} is not given"
        else:
            yield f"tune.{name} is {shown(fault['input'])}; {sentence(fault)}"
