"""Every study by name, in the order in which a reader wants them."""

from collections.abc import Mapping, Sequence

from hpfl.studies import (
    adaptation,
    clocks,
    fairness,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    fig11,
    gradient_orders,
    methods,
    own_step,
    planner_gap,
    privacy,
    robust,
    sensitivity,
    times,
    whole_cost,
    whole_cost_settled,
)
from hpfl.studies.study import Study

_FIGURES = (fig3, fig4, fig5, fig6, fig7, fig8, fig9, fig10, fig11)
_BEYOND = (
    times,
    own_step,
    adaptation,
    planner_gap,
    clocks,
    gradient_orders,
    fairness,
    sensitivity,
    whole_cost,
    whole_cost_settled,
    robust,
    privacy,
    methods,
)
STUDIES: Mapping[str, Study] = {module.STUDY.name: module.STUDY for module in (*_FIGURES, *_BEYOND)}
GROUPS: Mapping[str, Sequence[str]] = {
    "figures": [module.STUDY.name for module in _FIGURES],
    "beyond": [module.STUDY.name for module in _BEYOND],
    "all": list(STUDIES),
}


def chosen(names: Sequence[str]) -> list[Study]:
    """The studies that these names and groups mean, each once, in the catalogue's order; KeyError for a stranger."""
    wanted = {
        member for name in names for member in GROUPS.get(name, [STUDIES[name].name if name in STUDIES else name])
    }
    strangers = wanted - set(STUDIES)
    if strangers:
        raise KeyError(sorted(strangers)[0])
    return [study for name, study in STUDIES.items() if name in wanted]
