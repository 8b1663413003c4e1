"""Records of rounds and columns of UEs as tables for analysis, which need pandas."""

from __future__ import annotations  # pandas is an extra

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


class RoundRecords(list[dict[str, Any]]):
    """One flat record per round; `to_frame` gives them as a table."""

    def to_frame(self) -> DataFrame:
        """One row per round, one column per figure; what was not evaluated is NaN."""
        return pandas_needed().DataFrame.from_records(list(self))

    def _repr_html_(self) -> str | None:
        return _html(self)


class UeColumns(dict[str, Any]):
    """Figures of UEs by name, one entry per UE; `to_frame` gives them as a table."""

    def to_frame(self) -> DataFrame:
        """One row per UE, one column per figure."""
        return pandas_needed().DataFrame(dict(self))

    def _repr_html_(self) -> str | None:
        return _html(self)


def pandas_needed() -> Any:
    """Pandas, or a sentence that says how to get it."""
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas: pip install 'hpfl[notebook]'") from None
    return pandas


def _html(table: RoundRecords | UeColumns) -> str | None:
    """What a notebook shows; None, where there is no pandas, leaves it to the text."""
    try:
        shown: str = table.to_frame().to_html(max_rows=10, max_cols=14, border=0)
    except ImportError:
        return None
    return shown
