"""Plays one job in this process; every engine ends here, wherever it has brought the job to."""

import traceback
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from hpfl.sweeps.jobs import Job, JobOutcome, Player, Playing
from hpfl.told_errors import LOST, REFUSALS


def played(job: Job, playing: Playing) -> JobOutcome:
    """Play it; whatever goes wrong with it is its outcome, and nobody else's."""
    try:
        player: Player = resolve_name(job.player)
        facts = dict(player(job.task, playing))
    except (*REFUSALS, *LOST) as error:
        return JobOutcome(done=False, error=str(error))
    except Exception as error:  # noqa: BLE001  a part of somebody's own may raise anything
        last = "".join(traceback.format_exception(error)[-3:]).strip()
        return JobOutcome(done=False, error=f"{type(error).__name__}: {error}\n{last}")
    return JobOutcome(done=bool(facts.pop("done", True)), facts=facts)


def job_from_plain(plain: Mapping[str, Any]) -> Job:
    """The job that `Job.to_plain` was of."""
    return Job(**plain)
