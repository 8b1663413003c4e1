"""A search of a moment: the step size of two systems, a few rounds over six UEs."""

from hpfl.sweeps.study_file import study_of
from hpfl.sweeps.sweep_folder import BasedStudy, base_of

SMALL = {
    "network.edges": 3,
    "network.ues_per_edge": 2,
    "data.samples_per_ue": [5, 9],
    "evaluation.test_samples": 5,
    "evaluation.every": 1,
    "planning.planner": "random",
    "planning.max_edges": 2,
    "training.rounds": 4,
    "training.checkpoint_every": 2,
}
SPACE = {"learning.outer_lr": {"low": 0.01, "high": 1.0, "log": True}}


def small(tune=None, **tree):
    """The study, and its base."""
    searched = {"space": SPACE, "limit": 50.0, "trials": 3, "batch": 2, "fresh_seeds": 1} | (tune or {})
    told = {
        "grid": {"learning.inner_lr": [0.0, 0.03]},
        "seeds": 2,
        "targets": [0.2],
        "outputs": ["csv", "tables"],
    } | tree
    tree = {"base": "quickstart-paper", **told, "set": SMALL | told.get("set", {}), "tune": searched}
    study = study_of(tree, where="study.toml")
    return BasedStudy(study=study, base=base_of(study))
