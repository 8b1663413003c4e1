"""Everything a sweep leaves beside its runs: results, timings, tables, figures and a page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting.store import writing
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.reporting.table import csv_text
from hpfl.sweeps.sweep_figure import draw
from hpfl.sweeps.sweep_page import write_sweep_page
from hpfl.sweeps.sweep_tables import ResultTable, tables
from hpfl.sweeps.swept import Swept, result_rows, timing_rows
from hpfl.sweeps.table_texts import latex, markdown

RESULTS, PARQUET, TIMINGS, TABLE = "results.csv", "results.parquet", "timings.csv", "table"
NO_PARQUET = "{} needs pyarrow: pip install 'hpfl[sweep]'; {} holds the same"


def write_outputs(sweep: Swept, out: Path, say: Callable[[str], None]) -> list[ResultTable]:
    """Write what the study wants of the runs that are there; the tables. What cannot be made is said in a sentence."""
    wanted, made, figures = sweep.study.outputs, tables(sweep), list[Path]()
    rows = result_rows(sweep)
    with writing(out):
        if "csv" in wanted:
            atomic.write_text(out / RESULTS, csv_of(rows))
            atomic.write_text(out / TIMINGS, csv_of(timing_rows(sweep)))
        if "parquet" in wanted:
            write_parquet(rows, out / PARQUET, say)
        if "tables" in wanted:
            atomic.write_text(out / f"{TABLE}.md", markdown(made, note(sweep)))
            atomic.write_text(out / f"{TABLE}.tex", latex(made, note(sweep)))
        if "figures" in wanted:
            figures = _drawn(sweep, out, say)
        if "page" in wanted:
            write_sweep_page(sweep, out, tables=made, note=note(sweep), figures=figures)
    return made


def note(sweep: Swept) -> str:
    """What the figures of the tables are."""
    several = len(sweep.study.seed_list) > 1
    words = ["Means over seeds, ± half their 95 % interval (Student's t)." if several else "One seed, so no intervals."]
    words += ["A target is reached at the first of three successive evaluations that meet it."]
    if sweep.study.baseline:
        told = ", ".join(f"{key.rpartition('.')[2]} = {value}" for key, value in sweep.study.baseline.items())
        words += [f"Ratios are to the cell with {told}, seed by seed: geometric means with 95 % intervals."]
    return " ".join(words)


def csv_of(rows: Sequence[dict[str, Any]]) -> str:
    """Flat rows, which have the same columns, as CSV."""
    return csv_text({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})


def write_parquet(rows: Sequence[dict[str, Any]], path: Path, say: Callable[[str], None]) -> None:
    """The same as Parquet, where pyarrow is there."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        say(NO_PARQUET.format(path.name, f"{path.stem}.csv"))
        return
    columns = {name: _one_type([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    with atomic.replacing(path) as partial:
        pyarrow.parquet.write_table(pyarrow.table(columns), partial)


def _one_type(values: Sequence[Any]) -> list[Any]:
    """A column as it is, or as text where it has numbers and words in it."""
    kinds = {type(value) for value in values if value is not None}
    return list(values) if len(kinds) <= 1 or kinds <= {int, float} else [_text(value) for value in values]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _drawn(sweep: Swept, out: Path, say: Callable[[str], None]) -> list[Path]:
    try:
        return draw(sweep, out)
    except FiguresUnavailableError as error:
        say(str(error))
        return []
