"""Everything a search leaves beside its runs: trials, best configurations, tables, a figure and a page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.config import to_toml
from hpfl.reporting.looks import LOOKS, asked, drawn_as
from hpfl.reporting.store import writing
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.sweeps.outputs import TABLE, csv_of, write_parquet
from hpfl.sweeps.sweep_figure import FIGURES, FORMATS
from hpfl.sweeps.sweep_tables import ResultTable
from hpfl.sweeps.table_texts import latex, markdown
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.space import with_values
from hpfl.tuning.trials import Search
from hpfl.tuning.tune_figure import search_figure
from hpfl.tuning.tune_page import write_search_page
from hpfl.tuning.tune_tables import at_ends, search_tables, table_note, trial_rows, verdict

TRIALS, BEST, SEARCH = "trials", "best", "search"


def write_search(plan: TunePlan, searches: Sequence[Search], say: Callable[[str], None]) -> list[ResultTable]:
    """Write what the study wants of the trials that are there; the tables. What cannot be made is said."""
    wanted, out, rows = plan.based.study.outputs, plan.out, trial_rows(plan, searches)
    told = [search for search in searches if search.best is not None]
    with writing(out):
        if "csv" in wanted:
            atomic.write_text(out / f"{TRIALS}.csv", csv_of(rows))
        if "parquet" in wanted and rows:
            write_parquet(rows, out / f"{TRIALS}.parquet", say)
        if not told:
            return []
        _write_best(plan, told)
        made = search_tables(plan, searches)
        note = " ".join(text for text in (verdict(plan, told), at_ends(plan, told), table_note(plan)) if text)
        if "tables" in wanted:
            atomic.write_text(out / f"{TABLE}.md", markdown(made, note))
            atomic.write_text(out / f"{TABLE}.tex", latex(made, note))
        figure = _drawn(plan, told, say) if "figures" in wanted else None
        if "page" in wanted:
            write_search_page(plan, told, tables=made, rows=rows, figure=figure)
    return made


def _write_best(plan: TunePlan, searches: Sequence[Search]) -> None:
    """The configuration of each case at its best, as `hpfl run` takes it."""
    (plan.out / BEST).mkdir(exist_ok=True)
    for search in searches:
        if search.best is not None:
            best: Any = with_values(search.cell.config, search.best.params)
            atomic.write_text(plan.out / BEST / f"{search.cell.name}.toml", to_toml(best))


def _drawn(plan: TunePlan, searches: Sequence[Search], say: Callable[[str], None]) -> Path | None:
    """The figure for the page, and in the looks and kinds of file that are asked for."""
    wanted = asked()
    look = next(name for name, each in LOOKS.items() if each is wanted.look)
    stem = plan.out / FIGURES / SEARCH
    try:
        with drawn_as("screen"):
            usual = [search_figure(plan, searches, stem.with_suffix(f".{kind}")) for kind in FORMATS]
        name = SEARCH if look == "screen" else f"{SEARCH}-{look}"
        for kind in wanted.kinds or (() if look == "screen" else FORMATS[1:]):
            path = stem.with_name(f"{name}.{kind}")
            if path not in usual:
                search_figure(plan, searches, path)
    except FiguresUnavailableError as error:
        say(str(error))
        return None
    return usual[0]
