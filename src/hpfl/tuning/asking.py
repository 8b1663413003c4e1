"""The one place that asks Optuna: values for the next trial, and which keys matter.

Nothing of Optuna's is stored. A proposal is made by a sampler that is seeded for its trial alone and is told of the
trials before it, so that it follows from them wherever and whenever it is asked for.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpfl.config import ConfigError
from hpfl.tuning.space import Space, is_whole, rounded
from hpfl.tuning.tune_settings import Range

STARTUP = 5
"""Trials that are drawn at random before what they came to is gone by."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A trial as the sampler knows it: its score (less is better), or the level at the moment it was given up."""

    params: Mapping[str, Any]
    score: float | None = None
    stopped: Mapping[int, float] = field(default_factory=dict)
    """Of a trial that was given up: the last step and its level, less being better; of a model that was lost, none."""
    waiting: bool = False
    """Whether it is still to be run, with others of its batch."""
    failed: bool = False


def optuna() -> Any:
    """The library, silent; a sentence where it is not there."""
    try:
        import optuna as found
    except ImportError:
        raise ConfigError("hpfl tune needs Optuna: pip install 'hpfl[tune]'") from None
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def proposal(space: Space, known: Sequence[Known], *, sampler: str, address: str) -> dict[str, Any]:
    """Values for the next trial; `address` names it, and is all that its draws depend on besides `known`."""
    library = optuna()
    seed = int.from_bytes(hashlib.blake2b(address.encode(), digest_size=4).digest(), "little")
    how = library.samplers
    chosen = (
        how.RandomSampler(seed=seed)
        if sampler == "random"
        else how.TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP)
    )
    asked = _study(library, space, known, chosen).ask(_distributions(library, space)).params
    return {key: _value(space[key], asked[key]) for key in space}


def importances(space: Space, known: Sequence[Known]) -> dict[str, float]:
    """The share of each key in what sets good trials apart (PED-ANOVA); nothing where too little is known.

    Watanabe, Bansal and Hutter, "PED-ANOVA: efficiently quantifying hyperparameter importance in arbitrary
    subspaces", IJCAI 2023.
    """
    scores = {each.score for each in known if each.score is not None}
    if len(space) < 2 or len(scores) < 4:
        return dict.fromkeys(space, 1.0) if len(space) == 1 and scores else {}
    library = optuna()
    study = _study(library, space, known, library.samplers.RandomSampler(seed=0))
    how = library.importance
    found = how.get_param_importances(study, evaluator=how.PedAnovaImportanceEvaluator())
    return {key: float(found[key]) for key in space if math.isfinite(found.get(key, math.nan))}


def _study(library: Any, space: Space, known: Sequence[Known], sampler: Any) -> Any:
    study = library.create_study(direction="minimize", sampler=sampler)
    spread = _distributions(library, space)
    state = library.trial.TrialState
    for each in known:
        inside = {key: _index(space[key], each.params[key]) for key in space}
        facts: dict[str, Any] = {"state": state.PRUNED, "intermediate_values": dict(each.stopped)}
        if each.score is not None:
            facts = {"state": state.COMPLETE, "value": each.score}
        elif each.waiting or each.failed:
            facts = {"state": state.RUNNING if each.waiting else state.FAIL}
        study.add_trial(library.trial.create_trial(params=inside, distributions=spread, **facts))
    return study


def _distributions(library: Any, space: Space) -> dict[str, Any]:
    return {key: _distribution(library.distributions, found) for key, found in space.items()}


def _distribution(kinds: Any, found: Range | list[Any]) -> Any:
    """A list is asked for by places: Optuna's categories are words and numbers alone."""
    if isinstance(found, list):
        return kinds.CategoricalDistribution(list(range(len(found))))
    if is_whole(found):
        return kinds.IntDistribution(found.low, found.high, log=found.log, step=found.step or 1)
    return kinds.FloatDistribution(found.low, found.high, log=found.log, step=found.step)


def _index(found: Range | list[Any], value: Any) -> Any:
    return found.index(value) if isinstance(found, list) else value


def _value(found: Range | list[Any], asked: Any) -> Any:
    if isinstance(found, list):
        return found[asked]
    return int(asked) if is_whole(found) else rounded(float(asked), found)
