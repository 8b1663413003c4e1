"""Where the rows lie that UEs keep between rounds: on the device where they fit its memory, else on disk."""

from collections.abc import Mapping

import torch

from hpfl.config import Experiment
from hpfl.learning.kept import AnyRows
from hpfl.learning.sending import Sending
from hpfl.network.topology import Fleet
from hpfl.row_folder import RowFolder
from hpfl.training.remembered import CODEC, NAMES, first_errors, first_rows

SHARE = 0.25
"""Of the memory, for rows of all UEs; replacing some takes as much once more."""
_TOGETHER = 0.1  # of the memory, for the rows of UEs that compute together
_CHECKPOINTS = 2  # that are kept


def first_kept(
    config: Experiment,
    sending: Sending,
    params: torch.Tensor,
    fleet: Fleet,
    *,
    twice: bool,
    rows: RowFolder | None = None,
) -> Mapping[str, AnyRows]:
    """What UEs and edges keep in round 0; `twice` says that rows are remembered as they were before, too."""
    kept = {
        **first_rows(sending, params, fleet.num_ues),
        **first_errors(sending, params, fleet.num_ues, fleet.num_edges),
    }
    of_ues = {name: own for name, own in kept.items() if name in {*NAMES, CODEC}}
    need = sum(own.nbytes * (2 if twice and name in NAMES else 1) for name, own in of_ues.items())
    if need <= SHARE * config.learning.memory_gb * 1e9:
        return {name: own.contiguous() for name, own in kept.items()}
    own_folder = rows or RowFolder()
    own_folder.check_room(need * versions(config, fleet, saved=rows is not None))
    stored = {name: own_folder.begin(name, own[0], len(own)) for name, own in of_ues.items()}
    return {**{name: own.contiguous() for name, own in kept.items() if name not in of_ues}, **stored}


def versions(config: Experiment, fleet: Fleet, *, saved: bool) -> float:
    """How much the files take at most, over the bytes of all rows: checkpoints need rows that have changed since."""
    life, every = config.life, config.training.checkpoint_every if saved else 0
    share = life.sample_count * fleet.num_edges / fleet.num_ues if life.sample_count else life.sample_fraction
    return 1 + min(share, 1.0) + _CHECKPOINTS * min(share * every, 1.0)


def most_together(config: Experiment, kept: Mapping[str, AnyRows]) -> int | None:
    """How many UEs compute together where rows lie on disk, so that theirs fit the memory; None: all."""
    if all(isinstance(rows, torch.Tensor) for rows in kept.values()):
        return None
    row_bytes = sum(rows.nbytes // rows.shape[0] for rows in kept.values() if not isinstance(rows, torch.Tensor))
    return max(int(_TOGETHER * config.learning.memory_gb * 1e9 / row_bytes), 1)
