"""A sweep of a moment: two planners, two seeds, a few rounds over six UEs."""

from hpfl.sweeps.study_file import study_of
from hpfl.sweeps.sweep_folder import BasedStudy, base_of

SMALL = {
    "network.edges": 3,
    "network.ues_per_edge": 2,
    "data.samples_per_ue": [5, 9],
    "evaluation.test_samples": 5,
    "evaluation.every": 1,
    "planning.max_edges": 2,
    "training.rounds": 6,
    "training.checkpoint_every": 2,
}


def small(**tree):
    """The study, and its base."""
    told = {"grid": {"planning.planner": ["paper", "random"]}, "seeds": 2, "targets": [0.1]}
    told |= {"outputs": ["csv", "tables"]} | tree
    study = study_of({"base": "quickstart-paper", **told, "set": SMALL | told.get("set", {})}, where="study.toml")
    return BasedStudy(study=study, base=base_of(study))
