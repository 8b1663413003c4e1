"""Study `privacy`: accuracy against epsilon, for the privacy of one UE's whole data towards all beyond its cell."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.config import Config, load
from hpfl.experiment import Hooks, run_experiment
from hpfl.privacy import noise_multiplier_for
from hpfl.studies.cases import Scale
from hpfl.studies.curves import Line, draw_lines, panels
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, where
from hpfl.sweeps.parts import StudyPart

ROUNDS, DELTA, CLIP_NORM = 30, 1e-5, 1.0
EPSILONS = ("1", "2", "4", "8", "inf")
"""Epsilon after all rounds; "inf": updates are clipped and not noised."""
SYSTEMS: Mapping[str, tuple[str, Sequence[str]]] = {
    "hpfl": ("hpfl", ()),
    "hfl": ("hfl", ()),
    "fedavg-ft": ("hpfl", ("learning.method=fedavg-ft", "learning.method_options.finetune_lr=0.05")),
}
"""What is called so: the system, and keys beside."""
FIGURES = ("personalised_accuracy", "global_accuracy")
_LOOKS = {"hpfl": "#1b6ca8", "hfl": "#c0562b", "fedavg-ft": "#3a8f5c"}
_SHOWN = {"hpfl": "HPFL", "hfl": "HFL", "fedavg-ft": "FedAvg, fine-tuned"}
_KEYS = ("system", "epsilon")
_MANY = ("network.edges=10", "network.ues_per_edge=100", "data.samples_per_ue=[20.0, 30.0]")
_FEW = ("network.edges=5", "network.ues_per_edge=20", "data.samples_per_ue=[10.0, 20.0]")
_SETTING = (
    "planning.planner=full",
    "data.labels_per_ue=5",
    "learning.model=hpfl.studies.robust:narrow",
    "learning.outer_lr=0.5",
    f"training.rounds={ROUNDS}",
    f"evaluation.every={ROUNDS}",
    "evaluation.test_samples=20",
    "evaluation.ues=200",
    "learning.memory_gb=0.25",
)


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """All systems at all epsilons, seed after seed."""
    return [_part(scale, seed, system, epsilon) for seed in seeds for system in SYSTEMS for epsilon in EPSILONS]


def _part(scale: Scale, seed: int, system: str, epsilon: str) -> StudyPart:
    preset, (tiers, keys) = scale.setups["mnist"].preset, SYSTEMS[system]
    about = [*(_FEW if scale.thin else _MANY), *_SETTING, *keys, *_private(epsilon), f"training.seed={seed}"]
    config = load(preset, system=tiers, overrides=about)
    return StudyPart(
        name=f"privacy/{config.data.dataset}/{system}/epsilon-{epsilon}/seed-{seed}",
        labels={"system": system, "epsilon": epsilon, "seed": seed},
        config=config,
        probe=accuracy_and_spent,
    )


def _private(epsilon: str) -> Sequence[str]:
    """The keys with which all rounds together spend an epsilon."""
    return (
        "privacy.mechanism=gaussian",
        f"privacy.clip_norm={CLIP_NORM}",
        f"privacy.noise_multiplier={noise_multiplier(epsilon)!r}",
        f"privacy.delta={DELTA}",
    )


def noise_multiplier(epsilon: str) -> float:
    """The noise with which all rounds together spend an epsilon."""
    return noise_multiplier_for(float(epsilon), DELTA, ROUNDS) if math.isfinite(float(epsilon)) else 0.0


def accuracy_and_spent(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """A run of seconds, which is not written down while it lasts; the UEs' mean accuracies, and what was spent."""
    found = run_experiment(config, figures=False, device=device, data_dir=data_dir, hooks=hooks)
    means = {name: round(float(np.nanmean(found.ues[name])), 5) for name in FIGURES}
    return {"ues": None, "means": means, "spent": found.summary.get("epsilon")}


def tables(found: Sequence[Found]) -> Tables:
    """`means` over seeds of `runs`: accuracies by system and epsilon."""
    runs = [_run(part) for part in found]
    return {"means": _in_order(bands(runs, _KEYS, FIGURES)), "runs": runs}


def _run(part: Found) -> TableRow:
    """One run; the accuracy of one that diverged is 0."""
    labels, means = part["labels"], part.get("means") or dict.fromkeys(FIGURES, 0.0)
    epsilon = str(labels["epsilon"])
    spent = {"noise_multiplier": noise_multiplier(epsilon), "spent_epsilon": part.get("spent")}
    return {"system": labels["system"], "epsilon": epsilon, "seed": labels["seed"], **spent, **means}


def _in_order(means: Rows) -> Rows:
    order = {name: number for number, name in enumerate(SYSTEMS)}
    return sorted(means, key=lambda row: (order[row["system"]], float(row["epsilon"])))


def notes(made: Tables) -> list[str]:
    """What each system loses at each epsilon."""
    lines = []
    for system in SYSTEMS:
        rows = {str(row["epsilon"]): row["personalised_accuracy"] for row in where(made["means"], system=system)}
        clean = rows.pop("inf", None)
        if clean is not None and rows:
            lost = ", ".join(f"{100 * (clean - value):.1f} at {epsilon}" for epsilon, value in rows.items())
            lines.append(f"{_SHOWN[system]} has {100 * clean:.1f} % without noise; points lost by epsilon: {lost}.")
    return lines


def draw(made: Tables, folder: Path) -> list[Path]:
    """Accuracy of the adapted and of the shared model against epsilon; no noise stands at the right."""
    rows = [{**row, "across": _across(str(row["epsilon"]))} for row in made["means"]]
    titles = ("adapted by each UE", "the shared model")

    def fill(index: int, axes: Any) -> None:
        lines = [Line(where(rows, system=one), _SHOWN[one], _LOOKS[one], marker="o") for one in SYSTEMS]
        draw_lines(axes, lines, "across", FIGURES[index])
        axes.set_xticks([_across(one) for one in EPSILONS], [*EPSILONS[:-1], "no noise"])
        axes.set_xlabel(f"epsilon of a UE's whole data (delta = {DELTA:g})")

    return panels(folder / "privacy", ("Accuracy against privacy", "MNIST; means over seeds, 95 % bands"), titles, fill)


def _across(epsilon: str) -> float:
    value = float(epsilon)
    return math.log2(value) if math.isfinite(value) else math.log2(float(EPSILONS[-2])) + 1.5


STUDY = Study(
    name="privacy",
    title="Accuracy against epsilon",
    about="User-level differential privacy towards everybody beyond a cell: updates are clipped to norm "
    f"{CLIP_NORM:g}, and each edge noises the sum of its UEs' for (epsilon, {DELTA:g}) after all {ROUNDS} rounds; "
    "'inf' is the same without noise. 10 edges with 100 UEs of 20 to 30 samples and 5 labels each: noise falls with "
    "the UEs of a cell, and with 10 to an edge, as in the paper, it drowns everything. All edges in every round, outer "
    "step 0.5, a dense model with 20 hidden units; step and clip norm are the same for all. 200 UEs are evaluated.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("means",),
    notes=notes,
)
