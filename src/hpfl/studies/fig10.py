"""Figure 10: HPFL with UEs that have more or fewer of the ten labels, on CIFAR-10; and whether l matters more there."""

from hpfl.studies.claims import Statement
from hpfl.studies.fig9 import ABOUT, LABELS
from hpfl.studies.study import Rows, Tables
from hpfl.studies.sweeps import sweep_study, trends
from hpfl.studies.tabulate import by_seed, rise, where


def statements(made: Tables) -> list[Statement]:
    """C7 on CIFAR-10, and its comparison with MNIST."""
    here = {**made, "finals": where(made["finals"], data="cifar10")}
    return [*trends(here, "C7", "labels_per_ue", better=False), *_more_than_mnist(made)]


def _more_than_mnist(made: Tables) -> list[Statement]:
    def gap(members: Rows) -> float | None:
        falls = [
            rise([row["labels_per_ue"] for row in rows], [row["personalised_accuracy"] for row in rows])
            for rows in (where(members, data="cifar10"), where(members, data="mnist"))
        ]
        return None if falls[0] is None or falls[1] is None else falls[0] - falls[1]

    values = by_seed(made["finals"], gap)
    text = "rise of personalised accuracy with l, CIFAR-10's less MNIST's"
    return [Statement(claim="C7", data="cifar10", text=text, unit="points", values=values, most=0.0)]


STUDY = sweep_study(
    "fig10",
    ("cifar10", "mnist"),
    ("CIFAR-10: HPFL with l labels per UE", ABOUT),
    ("labels_per_ue", LABELS),
    statements,
)
