"""Commands with the example package installed, and the small network they run in."""

import subprocess
import sys
from pathlib import Path

EVERYTHING = Path(__file__).parents[2] / "examples" / "plugin" / "everything.toml"
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


def hpfl(arguments, environment, *, check=True):
    """The command's finished process."""
    return subprocess.run(
        [*HPFL, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=120, check=check
    )


def sets(*changes):
    """`--set` for each change."""
    return [word for change in changes for word in ("--set", change)]
