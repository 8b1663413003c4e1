"""Figure 9: HPFL with UEs that have more or fewer of the ten labels, on MNIST."""

from hpfl.studies.sweeps import sweep_study, trends

LABELS = (3, 5, 7, 9)
ABOUT = (
    "The proposed planner with UEs of l labels. The fewer labels, the more UEs differ, and the more a step of "
    "adaptation is worth; the paper calls a higher l more heterogeneous."
)
STUDY = sweep_study(
    "fig9",
    ("mnist",),
    ("MNIST: HPFL with l labels per UE", ABOUT),
    ("labels_per_ue", LABELS),
    lambda made: trends(made, "C7", "labels_per_ue", better=False),
)
