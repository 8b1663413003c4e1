"""What planners say of their plans over rounds, beyond what records hold: the debt, bounds and prices of scenes."""

from typing import Any

from hpfl.watch.scene_parts import part_of_scenes, shown_rounds
from hpfl.watch.shown import number
from hpfl.watch.watched_run import WatchedRun


def plans_between(run: WatchedRun, first: int | None, last: int | None) -> dict[str, Any]:
    """The numbers of scenes' plans as columns, one value for each round shown; null where a plan does not say it."""
    with run.lock:
        run.refresh()
        rounds, step = shown_rounds(run, first, last)
    plans = part_of_scenes(run.folder, rounds, step, "plan")
    columns = {name: [number(plan.get(name)) for plan in plans] for name in dict.fromkeys(k for p in plans for k in p)}
    told = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    return {"rounds": rounds, "columns": told, "stride": step}
