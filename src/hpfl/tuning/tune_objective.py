"""What a search is after: what it takes to reach a target, or a column of results; the value of a run and a trial."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpfl.assembly import metrics_of
from hpfl.config import Config, ConfigError, resolve
from hpfl.reporting.intervals import geometric
from hpfl.reporting.summary import summarise, to_target
from hpfl.reporting.targets import LOSS, Row, Target, configured
from hpfl.sweeps.study_file import LossTarget, SweepStudy
from hpfl.tuning.tune_settings import TuneSettings

SPENT: Mapping[str, tuple[str, str, str]] = {
    "seconds": ("time_to_target_s", "time_s", "s"),
    "rounds": ("rounds_to_target", "round", "rounds"),
    "joules": ("energy_to_target_j", "energy_j", "J"),
    "bits": ("uplink_bits_to_target", "uplink_bits", "bit"),
}
"""What may be spent to a target: its name in a summary, the column of a record that counts it, and its unit."""
_LESS = ("_loss", "_s", "_j", "_bits", "staleness", "divergence")


@dataclass(frozen=True, kw_only=True)
class TuneObjective:
    """What is wanted: `less` of it or more; with a target it is spent, up to `limit`."""

    name: str
    less: bool
    geometric: bool
    target: Target | None = None
    limit: float = 0.0

    @property
    def title(self) -> str:
        """`seconds to 90.0 % personalised accuracy`, or the column's name in words."""
        return f"{self.name} to {self.target.full}" if self.target else self.name.replace("_", " ")

    @property
    def unit(self) -> str:
        """Of its values; none of a share."""
        return SPENT[self.name][2] if self.target else ""

    @property
    def watched(self) -> tuple[str, bool]:
        """The column that is evaluated on the way, by which runs are compared, and whether less of it is better."""
        if self.target is not None:
            return self.target.metric, self.target.is_loss
        return self.name.removeprefix("final_").removeprefix("best_"), self.less

    def ends(self) -> dict[str, Any]:
        """What ends a run that needs no more rounds."""
        if self.target is None:
            return {}
        return {"reach": [self.target.value, self.target.metric], "most": {SPENT[self.name][1]: self.limit}}

    def of_run(self, rows: Sequence[Row], config: Config) -> float | None:
        """What a run came to; None where it never arrived, or has no such figure."""
        if self.target is not None:
            value = to_target(rows, self.target)[SPENT[self.name][0]]
            return None if value is None or value > self.limit else float(value)
        value = summarise(rows, target=None, metrics=metrics_of(resolve(config))).get(self.name)
        return None if value is None else float(value)

    def counted(self, value: float | None, lost: str | None) -> float | None:
        """What a run counts as: one that never arrives, its limit; None where a figure is unknown or a model lost."""
        if self.target is not None:
            return self.limit if value is None or lost else value
        return None if lost else value

    def of_trial(self, values: Sequence[float]) -> float:
        """The mean over seeds."""
        if len(set(values)) == 1:
            return values[0]
        found = geometric(values) if self.geometric and all(value > 0 for value in values) else None
        return statistics.fmean(values) if found is None else found.mean

    def score(self, value: float) -> float:
        """Less is better."""
        return value if self.less else -value


def objective_of(study: SweepStudy, settings: TuneSettings, bases: Sequence[Config]) -> TuneObjective:
    """What the settings ask for; refused where no run can tell it."""
    if settings.objective in SPENT:
        return _spent(study, settings, bases)
    if settings.target is not None or settings.limit is not None:
        word = "target" if settings.target is not None else "limit"
        raise ConfigError(
            f"tune.{word} is given, and tune.objective is {settings.objective}; a {word} is of {', '.join(SPENT)}"
        )
    known = _columns(bases)
    if settings.objective not in known:
        raise ConfigError(
            f"tune.objective is {settings.objective!r}; wanted {', '.join(SPENT)}, or a column of results: "
            f"{', '.join(known)}"
        )
    less = settings.better == "less" or (settings.better == "auto" and settings.objective.endswith(_LESS))
    return TuneObjective(name=settings.objective, less=less, geometric=settings.mean == "geometric")


def _spent(study: SweepStudy, settings: TuneSettings, bases: Sequence[Config]) -> TuneObjective:
    named = study.wanted_targets or list(dict.fromkeys(configured(base.evaluation) for base in bases))
    target = named[-1] if settings.target is None else _target(settings.target)
    if target not in named:
        told = ", ".join(each.short for each in named)
        raise ConfigError(f"tune.target is {target.short}; no run names it: the targets are {told}")
    if settings.better != "auto":
        raise ConfigError(f"tune.better is {settings.better}; of {settings.objective} to a target less is better")
    limit = settings.limit
    if limit is None and settings.objective == "rounds":
        limit = float(max(base.training.rounds for base in bases))
    if limit is None:
        raise ConfigError(
            f"tune.limit is not given; wanted so many {settings.objective}, as which a run counts that never reaches "
            f"{target.short}"
        )
    return TuneObjective(
        name=settings.objective, less=True, geometric=settings.mean != "arithmetic", target=target, limit=limit
    )


def _target(given: float | LossTarget) -> Target:
    return Target(given.loss, LOSS) if isinstance(given, LossTarget) else Target(given)


def _columns(bases: Sequence[Config]) -> list[str]:
    """The columns that a summary has a number in, whatever becomes of the run."""
    every = [summarise([], target=None, metrics=metrics_of(resolve(base))) for base in bases]
    told = set.intersection(*(set(each) for each in every))
    left_out = {"diverged", "target_accuracy", "target_loss", "planning_s", *(each[0] for each in SPENT.values())}
    left_out |= {"downlink_bits_to_target", "rounds"}
    return [name for name in every[0] if name in told - left_out]
