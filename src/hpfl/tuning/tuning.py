"""A whole search: plays batch after batch for every case, side by side, then leaves everything that is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpfl.sweeps.parts import StudyPart
from hpfl.sweeps.runner import ShouldStop, Unfinished, alone, play_parts
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_tables import ResultTable
from hpfl.sweeps.sweeping import Means
from hpfl.tuning.found_runs import FoundRuns
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.proposals import Proposals
from hpfl.tuning.trials import Search, searched
from hpfl.tuning.tune_folder import claim_search
from hpfl.tuning.tune_outputs import write_search
from hpfl.tuning.tune_tables import figure_of


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """What a search has come to."""

    searches: Sequence[Search]
    left: Unfinished
    tables: Sequence[ResultTable]


@dataclass(kw_only=True)
class _Tuner:
    """All searches of a study, gone through again whenever the runs known so far are over."""

    plan: TunePlan
    display: SweepDisplay
    keep_stale: bool
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found = FoundRuns(self.plan.out, self.plan.objective, self.plan.by or "time_s", keep_stale=self.keep_stale)
        self.book = Proposals(self.plan.out)
        self.searches: list[Search] = []

    def more(self) -> list[StudyPart]:
        """All runs by what is known now."""
        plan = self.plan
        self.searches = [searched(plan, cell, self.found, self.book, self.failed) for cell in plan.cells]
        self.book.save()
        self._say()
        return [part for search in self.searches for part in search.parts]

    def to_come(self) -> int:
        """How many runs may follow those that are known, at most."""
        return sum(search.to_come for search in self.searches)

    def _say(self) -> None:
        """The best so far of each case, in one line."""
        best = [(search, search.best) for search in self.searches]
        told = [
            f"{search.cell.short_label}: {figure_of(trial.value, self.plan.objective)}"
            for search, trial in best
            if trial is not None
        ]
        self.display.headline = f"best so far: {'; '.join(told)}" if told else ""
        if self.found.stale:
            count = len(self.found.stale)
            self.display.note(
                f"{count} run{'s are' if count > 1 else ' is'} stale: made by another version of what computes them. "
                + ("They are taken as they are." if self.keep_stale else "They are run again.")
            )


def carry_out_search(
    plan: TunePlan, means: Means, display: SweepDisplay, *, should_stop: ShouldStop = lambda: False
) -> TuneResult:
    """Run what is missing, and write everything of what is there then."""
    engine = means.make()
    with alone(plan.out):
        claim_search(plan.out, plan.based)
        tuner, left = _Tuner(plan=plan, display=display, keep_stale=engine is None), Unfinished()
        if engine is None:
            tuner.more()
        else:
            place = means.place(plan.out)
            left = play_parts(
                tuner.more(), place, engine, display, should_stop=should_stop, more=tuner.more, go_on=True,
                failed=tuner.failed, to_come=tuner.to_come,
            )  # fmt: skip
            tuner.more()  # what was stopped leaves more than it began with
        tables = write_search(plan, tuner.searches, display.note)
    return TuneResult(searches=tuner.searches, left=left, tables=tables)
