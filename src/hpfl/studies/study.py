"""What a study is: its runs, the tables made of them, the picture, and what it says about the paper's claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl.studies.cases import Scale
from hpfl.studies.claims import Statement
from hpfl.sweeps.parts import StudyPart

Found = Mapping[str, Any]
"""The content of a part's file."""
TableRow = dict[str, Any]
Rows = list[TableRow]
Tables = Mapping[str, Rows]


def no_statements(_tables: Tables) -> list[Statement]:
    """For a study that the paper says nothing about."""
    return []


def nothing_more(_scale: Scale, _seeds: Sequence[int], _found: Sequence[Found]) -> list[StudyPart]:
    """For a study whose runs are all known beforehand."""
    return []


def no_notes(_tables: Tables) -> list[str]:
    """For a study whose figures need no further word."""
    return []


@dataclass(frozen=True, kw_only=True)
class Study:
    """One figure, or one question beyond the paper.

    `tables` are written as CSV and are all that `draw` and `claims` may look at, so that whoever has the CSV files
    can draw and judge again; those named in `shown` are small and stand on the page, as do the sentences of `notes`.
    `then` says which runs follow from what was found so far, such as those of a choice made on other seeds.
    """

    name: str
    title: str
    about: str
    parts: Callable[[Scale, Sequence[int]], list[StudyPart]]
    tables: Callable[[Sequence[Found]], Tables]
    draw: Callable[[Tables, Path], list[Path]]
    claims: Callable[[Tables], list[Statement]] = no_statements
    then: Callable[[Scale, Sequence[int], Sequence[Found]], list[StudyPart]] = nothing_more
    shown: tuple[str, ...] = ()
    notes: Callable[[Tables], list[str]] = no_notes
