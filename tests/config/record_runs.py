"""Leaves runs that stopped half-way, and what they come to: `python record_runs.py FOLDER`.

`recorded_runs` was made so by the version before parts had options, whose planners were told their settings in their
memory, and is not to be made again: it is what must be resumed.
"""

import json
import sys
from pathlib import Path

from torch import nn

import hpfl
from hpfl.config import load

SHAPE = [
    "network.edges=3",
    "network.ues_per_edge=2",
    "planning.max_edges=2",
    "learning.model=record_runs:tiny",
    "learning.outer_lr=0.5",
    "training.rounds=8",
    "evaluation.every=2",
]
RUNS = {
    "scripted": ["planning.planner=scripted", "planning.script=[[0], [1, 2], [2]]"],
    "unpriced": [
        "planning.planner=fastest",
        "planning.staleness_price=none",
        "training.broadcast=scheduled",
        "planning.sketch_size=8",
    ],
    "priced": ["planning.planner=fastest", "training.broadcast=scheduled", "planning.sketch_size=8"],
}
STOPPED_AFTER = 4


def tiny(num_outputs):
    """170 parameters, so that checkpoints are small."""
    return nn.Sequential(nn.AvgPool2d(7), nn.Flatten(), nn.Linear(16, num_outputs))


def record(folder):
    for name, overrides in RUNS.items():
        config = load("quickstart", overrides=[*SHAPE, *overrides])
        rounds = []
        hooks = hpfl.Hooks(on_round=rounds.append, should_stop=lambda seen=rounds: len(seen) == STOPPED_AFTER)
        hpfl.run(config, out=folder / name, figures=False, hooks=hooks)
        for path in (folder / name).glob("*"):
            if path.name in {"model.safetensors", "ues.csv", "summary.json"}:
                path.unlink()
        whole = hpfl.run(config, hooks=hpfl.Hooks())
        model = {key: value.tolist() for key, value in whole.model.items()}
        (folder / f"{name}.json").write_text(json.dumps({"rounds": whole.rounds, "model": model}))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
