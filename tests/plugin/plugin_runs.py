"""The example package's parts and where each lies, the small network its tests run in, and commands that have it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import hpfl

PACKAGE = Path(__file__).parents[2] / "examples" / "plugin"
EVERYTHING = PACKAGE / "everything.toml"
HPFL = [sys.executable, "-c", "from hpfl.cli import main; main()"]
SMALL = [
    "network.edges=2",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[8, 16]",
    "evaluation.test_samples=10",
    "evaluation.every=2",
    "planning.max_edges=2",
    "training.rounds=6",
    "training.checkpoint_every=1",
]
FOUR_EDGES = [*SMALL, "network.edges=4", "planning.max_edges=3"]
WITHOUT = {
    "planner": ["planning.planner=random", "planning.planner_options={}"],
    "channel": ["network.channel=path-loss-and-fading", "network.channel_options={}"],
    "method": ["learning.method=fedavg"],
    "uplink": ["learning.uplink=[]"],
    "combine": ["training.combine=mean", "training.combine_options={}", "training.edge_combine=mean"],
    "metric": ['evaluation.metrics=["accuracy", "test-loss"]'],
    "watcher": ["training.watchers=[]"],
    "partitioner": ["data.partitioner=labels"],
    "clock": ["training.clock=round", "training.clock_options={}"],
}
"""What takes each part away."""


def places():
    """Where each part lies, `module:callable`, by its name."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    return {name: place for group in project["entry-points"].values() for name, place in group.items()}


def everything(folder, *changes):
    """`everything.toml` for a process in which the package is not installed: parts are named by their places."""
    text = EVERYTHING.read_text()
    for name, place in places().items():
        text = text.replace(f'"{name}"', f'"{place}"')
    file = folder / "everything.toml"
    file.write_text(text)
    return hpfl.load(str(file), overrides=[*FOUR_EDGES, *changes])


def hpfl_command(arguments, environment):
    """What a command says in a process that has the package."""
    words = [*HPFL, *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=280, check=True).stdout
