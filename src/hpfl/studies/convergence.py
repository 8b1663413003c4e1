"""Loss and accuracy against rounds: what figures 3 to 6, 9 and 10 have in common."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpfl.studies.curves import Line, draw_lines, panels
from hpfl.studies.study import Found, Rows, Tables
from hpfl.studies.tabulate import EVALUATED, bands, evaluations, finals

KEYS = ("data", "system", "planner", "rho", "labels_per_ue")


def tables(found: Sequence[Found]) -> Tables:
    """`evaluations` (every run), `curves` (means over seeds with intervals) and `finals` (one row per run)."""
    rows = evaluations(found)
    return {
        "finals": finals(found),
        "curves": bands(rows, (*KEYS, "round"), EVALUATED),
        "evaluations": rows,
    }


def draw(made: Tables, path: Path, title: str, lines: Callable[[Rows], list[Line]]) -> list[Path]:
    """Loss on the left and accuracy on the right, personalised above, of the global model below."""
    columns = ("meta_loss", "personalised_accuracy", "loss", "global_accuracy")
    series = lines(made["curves"])
    seeds = max((row["seeds"] for row in made["curves"]), default=0)

    def fill(index: int, axes: Any) -> None:
        draw_lines(axes, series, "round", columns[index])
        axes.set_xlabel("round")

    heads = (
        "After one adaptation step",
        "After one adaptation step",
        "Global model, unadapted",
        "Global model, unadapted",
    )
    return panels(path, (title, f"mean of {seeds} seeds, band: 95 % interval"), heads, fill, rows=2)
