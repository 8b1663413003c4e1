"""Figure 6: HPFL under different weights rho of importance against latency, on CIFAR-10."""

from hpfl.studies.sweeps import sweep_study, trends

STUDY = sweep_study(
    "fig6",
    ("cifar10",),
    (
        "CIFAR-10: HPFL with different rho",
        "The proposed planner with rho, the weight of data importance against latency.",
    ),
    ("rho", (0.1, 0.3, 0.5, 0.9)),
    lambda made: trends(made, "C4", "rho", better=True),
)
