"""Study `sensitivity`: whether C1 and C2 depend on what the paper leaves open: S, the data sizes and alpha."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpfl.config import load
from hpfl.reporting.style import INK, MUTED, SERIES
from hpfl.studies.beyond import less
from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import LEAST_SEEDS
from hpfl.studies.curves import panels
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import distinct, finals, where
from hpfl.sweeps.parts import StudyPart

WHO = (("hpfl", "paper"), ("hfl", "paper"), ("hpfl", "full"), ("hpfl", "random"))
BOUNDS, STEPS = (5, 40), (0.01, 0.1)
SIZES = (0.4, 1.3)
"""Times the preset's range of samples per UE; MNIST has too few for half as many again."""
COMPARED: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "C1: HPFL less HFL": (("hpfl", "paper"), ("hfl", "paper")),
    "C2: full less proposed": (("hpfl", "full"), ("hpfl", "paper")),
    "C2: proposed less random": (("hpfl", "paper"), ("hpfl", "random")),
}
PRESET = "as in the preset"
_SYMBOLS = {"staleness_bound": "S", "samples_per_ue": "D", "inner_lr": "alpha"}


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """The preset's runs, which are figure 3's, and the same with one parameter changed at a time."""
    changes: list[TableRow] = [
        {},
        *(each for changed in _changes(scale) for each in (changed[:1] if scale.thin else changed)),
    ]
    return [
        case(scale, "mnist", seed, system=system, planner=planner, vary=_kept(changed, system))
        for seed in seeds
        for changed in changes
        for system, planner in WHO
    ]


def _changes(scale: Scale) -> list[list[TableRow]]:
    preset = load(scale.setups["mnist"].preset).model_dump()
    return [
        [{"planning.staleness_bound": bound} for bound in BOUNDS],
        [{"data.samples_per_ue": [times * end for end in preset["data"]["samples_per_ue"]]} for times in SIZES],
        [{"learning.inner_lr": alpha, "evaluation.inner_lr": alpha} for alpha in STEPS],
    ]


def _kept(changed: TableRow, system: str) -> TableRow:
    """HFL does not adapt as it trains: only the step that it is measured with changes."""
    return {key: value for key, value in changed.items() if system == "hpfl" or key != "learning.inner_lr"}


def tables(found: Sequence[Found]) -> Tables:
    """`differences` of final values in every setting, paired by seed, with what becomes of the sign; `finals`."""
    ends = [row | {"setting": setting_of(row)} for row in finals(found, ("personalised_accuracy", "meta_loss"))]
    return {"differences": [row for setting in _settings(ends) for row in _compared(ends, setting)], "finals": ends}


def setting_of(labels: TableRow) -> str:
    """`S = 5`, or that nothing was changed."""
    for label, symbol in _SYMBOLS.items():
        if label in labels:
            value = labels[label]
            return f"{symbol} = {value[0]:g} to {value[1]:g}" if isinstance(value, list) else f"{symbol} = {value:g}"
    return PRESET


def _settings(ends: Rows) -> list[str]:
    return sorted(distinct(ends, "setting"), key=lambda setting: setting != PRESET)


def _compared(ends: Rows, setting: str) -> Iterator[TableRow]:
    for words, (ours, theirs) in COMPARED.items():
        pair = [where(ends, setting=setting, system=system, planner=planner) for system, planner in (ours, theirs)]
        row = less(pair[0], pair[1], ("personalised_accuracy", "meta_loss"))
        if row["seeds"]:
            sign = sign_of(row, "personalised_accuracy")
            yield {"setting": setting, "comparison": words, "accuracy_is": sign, **row}


def sign_of(row: TableRow, column: str) -> str:
    """Whether an interval lies above zero, below it, or holds it; nothing is said of few seeds."""
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    if low is None or row["seeds"] < LEAST_SEEDS:
        return "open"
    return "higher" if low > 0 else "lower" if high < 0 else "open"


def draw(made: Tables, folder: Path) -> list[Path]:
    """A forest plot for each comparison: one line per setting, the preset's first."""
    rows = made["differences"]
    comparisons = [words for words in COMPARED if where(rows, comparison=words)]
    settings = distinct(rows, "setting")

    def fill(index: int, axes: Any) -> None:
        _forest(axes, where(rows, comparison=comparisons[index]), settings)
        if index:
            axes.tick_params(axis="y", labelleft=False)

    facts = (
        "Do C1 and C2 depend on what the paper leaves open?",
        "difference of final personalised accuracy, paired by seed, 95 % intervals; right of zero: as claimed",
    )
    return panels(folder / "sensitivity", facts, comparisons, fill)


def _forest(axes: Any, rows: Rows, settings: Sequence[str]) -> None:
    axes.axvline(0.0, color=MUTED, linewidth=0.8)
    for row in rows:
        place, value = settings.index(row["setting"]), 100 * row["personalised_accuracy"]
        colour = (
            INK if row["setting"] == PRESET else SERIES[list(_SYMBOLS.values()).index(row["setting"].split(" =")[0])]
        )
        low, high = row["personalised_accuracy_low"], row["personalised_accuracy_high"]
        ends = None if low is None else [[value - 100 * low], [100 * high - value]]
        axes.errorbar([value], [place], xerr=ends, fmt="o", color=colour, capsize=2.5, markersize=4.5, linewidth=1.3)
    axes.set_yticks(range(len(settings)), settings)
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("difference (points)")


STUDY = Study(
    name="sensitivity",
    title="C1 and C2 under other S, data sizes and alpha",
    about="The paper leaves S and the data sizes open, and one alpha stands for all; the preset fixes them once. Here "
    "each is changed alone: S is the staleness bound, D the range of samples per UE, alpha the adaptation step.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("differences",),
)
