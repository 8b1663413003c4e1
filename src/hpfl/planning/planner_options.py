"""Options of the planners that have some."""

from typing import Annotated, Literal

from pydantic import Field

from hpfl.options import Options, option

Turn = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class FirstFastestOptions(Options):
    """Options of planner `fastest-v1`."""

    staleness_price: Literal["learned", "none"] = option("learned", "price of age; none: old updates count as new")


class FastestOptions(FirstFastestOptions):
    """Options of planner `fastest`."""

    seconds_per_joule: float = option(0.0, "seconds that one joule of UEs counts as much as", ge=0)


class ScriptedOptions(Options):
    """Options of planner `scripted`."""

    script: list[Turn] = option([], "edges to schedule round by round, repeated; empty: edges in turn")
