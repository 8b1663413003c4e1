"""Study `methods`: all methods on three data sets, split in three ways, over three tiers, with `fastest` and `full`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.config import Config
from hpfl.experiment import Hooks, run_experiment
from hpfl.studies import methods_picture, methods_tables
from hpfl.studies.cases import Scale
from hpfl.studies.methods_grid import DEVELOPMENT, PARTITIONS, MethodPlace, development, grid, judged
from hpfl.studies.study import Found, Study
from hpfl.sweeps.parts import StudyPart


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """The runs that steps are chosen by."""
    return [_part(place) for data in grid(scale) for place in development(data, scale)]


def then(scale: Scale, seeds: Sequence[int], found: Sequence[Found]) -> list[StudyPart]:
    """Every method at the step that was best for it, once all of its steps have been tried on a data set."""
    every = []
    for number, seed in enumerate(seeds):
        for data in grid(scale):
            if number < data.seeds:
                steps = methods_tables.chosen_steps(found, data.name, _tried(data.name, scale))
                every += [_part(place) for place in judged(data, steps, seed)]
    return every


def _tried(data: str, scale: Scale) -> Mapping[str, int]:
    """How many steps are tried of each method."""
    names = [place.method for one in grid(scale) if one.name == data for place in development(one, scale)]
    return {name: names.count(name) for name in names}


@cache
def _part(place: MethodPlace) -> StudyPart:
    return StudyPart(name=place.name, labels=place.labels, config=place.config(), probe=ues_at_the_end)


def ues_at_the_end(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """A run of seconds, which is not written down while it lasts; every UE's accuracy at its end."""
    found = run_experiment(config, figures=False, device=device, data_dir=data_dir, hooks=hooks)
    accuracies = [round(float(value), 5) for value in found.ues["personalised_accuracy"]]
    newcomers = np.flatnonzero(found.ues.get("held_out", ())).tolist()
    return {"ues": {"personalised_accuracy": accuracies}, "newcomers": newcomers}


STUDY = Study(
    name="methods",
    title="Methods of personalisation, over an edge network",
    about="Every method that is shipped, on MNIST, Fashion-MNIST and CIFAR-10 (its images from JPEG of quality 75), "
    f"split in three ways ({', '.join(PARTITIONS)}), over three tiers: 10 edges with 6 UEs of 30 to 120 samples, one "
    "epoch of batches of 20 a round, 10 UEs that never train; with `full` in every round all edges, with `fastest` "
    "those that it chooses, for 2.4 times the rounds or more. Each method has the step that was best for it on seed "
    f"{DEVELOPMENT}, of five, on the Dirichlet split; its other options are those of its paper. Figures are of the "
    "UEs that train, at the end of a run.",
    parts=parts,
    tables=methods_tables.tables,
    draw=methods_picture.draw,
    shown=("ranks", "accuracies", "targets"),
    notes=methods_tables.notes,
    then=then,
)
