"""The runs of a study by name: a preset, a system, a planner and what is varied, at full size or quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpfl.config import Config, load
from hpfl.sweeps.parts import StudyPart

SHOWN: Mapping[str, str] = {"rho": "planning.rho", "labels_per_ue": "data.labels_per_ue"}
"""Labels that every case carries, varied or not, with their keys."""
_SHORT = {"labels_per_ue": "l", "max_edges": "A", "staleness_bound": "S", "inner_lr": "alpha", "samples_per_ue": "D"}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A data set at some size: its preset, how many rounds it is given, and how often it is evaluated."""

    preset: str
    rounds: int
    every: int


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large studies are run: which data sets, and each one's setup; sweeps may be thinned out."""

    name: str
    setups: Mapping[str, Setup]
    thin: bool = False

    def has(self, data: str) -> bool:
        """Whether this data set is there at this scale."""
        return data in self.setups

    def sweep(self, values: Sequence[float]) -> Sequence[float]:
        """All values, or only the first, the middle and the last."""
        return (values[0], values[len(values) // 2], values[-1]) if self.thin and len(values) > 4 else values


FULL = Scale(
    name="full",
    setups={
        "mnist": Setup(preset="paper-mnist", rounds=150, every=5),
        "cifar10": Setup(preset="paper-cifar10", rounds=300, every=10),
    },
)
QUICK = Scale(name="quick", setups={"mnist": Setup(preset="quickstart-paper", rounds=30, every=3)}, thin=True)


def case(
    scale: Scale,
    data: str,
    seed: int,
    *,
    system: str = "hpfl",
    planner: str = "paper",
    rounds: int | None = None,
    vary: Mapping[str, Any] | None = None,
) -> StudyPart:
    """The run of `system` with `planner` on `data`, with the keys in `vary` (`section.key`) changed.

    Equal runs have equal names, so that figures share them.
    """
    setup = scale.setups[data]
    wanted = vary or {}
    vary = _changes(setup.preset, wanted)
    every = setup.every if rounds is None else rounds
    overrides = [
        f"planning.planner={planner}",
        f"training.seed={seed}",
        f"training.rounds={rounds or setup.rounds}",
        f"evaluation.every={every}",
        *(f"{key}={value}" for key, value in vary.items()),
    ]
    config = load(setup.preset, system=system, overrides=overrides)
    labels: dict[str, Any] = {"data": config.data.dataset, "system": system, "planner": planner}
    for name, key in {**SHOWN, **{key.partition(".")[2]: key for key in wanted}}.items():
        labels[name] = value_of(config, key)
    return StudyPart(
        name="/".join([config.data.dataset, f"{system}-{planner}", *_slug(vary, rounds), f"seed-{seed}"]),
        labels={**labels, "seed": seed},
        config=config,
    )


def _changes(preset: str, vary: Mapping[str, Any]) -> dict[str, Any]:
    """What of `vary` differs from the preset."""
    config = load(preset)
    return {key: value for key, value in vary.items() if value_of(config, key) != value}


def value_of(config: Config, key: str) -> Any:
    """The value of `section.key`, by the key's present name or an older one, as plain data."""
    section, name = key.split(".")
    value = getattr(getattr(config, section), name)
    return value.model_dump() if hasattr(value, "model_dump") else value


def _slug(vary: Mapping[str, Any], rounds: int | None) -> list[str]:
    """A folder name for what differs from the preset, if anything does."""
    words = list(dict.fromkeys(f"{_SHORT.get(name, name)}-{_plain(value)}" for name, value in _named(vary)))
    words += [] if rounds is None else [f"rounds-{rounds}"]
    return ["_".join(words)] if words else []


def _named(vary: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key.partition(".")[2], value) for key, value in vary.items()]


def _plain(value: Any) -> str:
    return "-".join(f"{entry:g}" for entry in value) if isinstance(value, list) else f"{value}"
