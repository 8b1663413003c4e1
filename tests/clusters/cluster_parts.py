"""Parts that kill the process they are in, once: what a lost worker looks like from inside."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

import hpfl
from hpfl.experiment import Hooks, run_experiment
from hpfl.learning import BaseMethod, Local, LocalTraining, ParameterSpec, UeCalculus, descended, with_entries
from hpfl.sweeps.jobs import Playing


def die_once(marker: Path) -> None:
    """End this process with SIGKILL, unless somebody has."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


_CALLS = count()


class HeadOptions(hpfl.Options):
    """Options of `PrivateHead`."""

    marker: str


@dataclass(frozen=True)
class PrivateHead(BaseMethod):
    """UEs keep the bias of the last layer; whoever is in the middle of it while there is no file `marker` dies."""

    marker: str

    def numbers_kept(self, spec: ParameterSpec) -> int:
        return 10

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        return params[-10:]

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        if next(_CALLS) == 12:  # beyond what is tried when a cohort is made
            die_once(Path(self.marker))
        own = list(range(len(params) - 10, len(params)))
        total, end, losses = descended(steps, with_entries(params, params.new_tensor(own).long(), kept), training)
        return Local(total, end[-10:], *losses)


@hpfl.part(options=HeadOptions)
def private_head(*, options: HeadOptions) -> PrivateHead:
    return PrivateHead(options.marker)


def play(task: Mapping[str, Any], playing: Playing) -> Mapping[str, Any]:
    """A job: a run that its process dies over after a round, if it is told a marker, and that is resumed then."""
    out = Path(task["out"])

    def on_round(record: Any) -> None:
        playing.on_round(record.round)
        if task["marker"] and record.round == 3:
            die_once(Path(task["marker"]))

    config = hpfl.load(task["config"])
    resume = out.exists()
    result = run_experiment(
        config,
        out=out,
        resume=resume,
        figures=False,
        hooks=Hooks(on_round=on_round, should_stop=playing.should_stop, note=playing.note),
    )
    return {"done": result.completed, "resumed": resume}
