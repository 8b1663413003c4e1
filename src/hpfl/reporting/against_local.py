"""Who is worse off: UEs that a model of their own, trained alone (method `local`), serves better than a run's."""

from collections.abc import Sequence

import numpy as np

from hpfl.reporting.groups import Group
from hpfl.reporting.runs import RunView

LOCAL = "local"
_FIGURE = "personalised_accuracy"


def worse_off(groups: Sequence[Group]) -> list[str]:
    """A sentence for every group, where runs of method `local` with the same seeds and UEs are beside it."""
    alone = {view.seed: view for group in groups for view in group.runs if method_of(view) == LOCAL}
    return [sentence for group in groups if (sentence := _sentence(group, alone))]


def share_worse_off(run: RunView, alone: RunView) -> float | None:
    """The share of UEs that a run leaves worse off than alone; None where the two have not the same UEs."""
    ours, theirs = run.ue_column(_FIGURE), alone.ue_column(_FIGURE)
    if (
        ours.shape != theirs.shape
        or not ours.size
        or not np.array_equal(run.ue_column("samples"), alone.ue_column("samples"))
    ):
        return None
    known = ~(np.isnan(ours) | np.isnan(theirs))
    return float((ours < theirs)[known].mean()) if known.any() else None


def _sentence(group: Group, alone: dict[int | None, RunView]) -> str:
    pairs = [(view, alone[view.seed]) for view in group.runs if view.seed in alone and method_of(view) != LOCAL]
    shares = [share for pair in pairs if (share := share_worse_off(*pair)) is not None]
    if not shares:
        return ""
    seeds = f" (mean of {len(shares)} seeds)" if len(shares) > 1 else ""
    return (
        f"{group.label}: {100 * float(np.mean(shares)):.0f} % of the UEs are worse off than with method local{seeds}."
    )


def method_of(view: RunView) -> str | None:
    """The method's name, where the configuration is known."""
    method = view.setting("learning", "method")
    return method if isinstance(method, str) else None
