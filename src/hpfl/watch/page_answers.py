"""What the page may ask of the runs, and the answers: plain objects, bounded, the same for a server and an export."""

from typing import Any

import hpfl
from hpfl.reporting.folder import TIMELINE, UES
from hpfl.watch.by_round import RoundLines
from hpfl.watch.edge_matrices import edges_between
from hpfl.watch.gantt_rows import gantt_between
from hpfl.watch.node_rows import nodes_of
from hpfl.watch.plan_series import plans_between
from hpfl.watch.round_detail import detail_of
from hpfl.watch.run_sources import Sources
from hpfl.watch.ue_table import one_ue, ues_of
from hpfl.watch.watched_cloud import WatchedCloud
from hpfl.watch.watched_run import Watched, WatchedRun

RoundSpan = tuple[int | None, int | None]


class UnknownError(Exception):
    """Something was asked for that is not there, in one sentence."""


class FolderAnswers:
    """The answers about runs in folders."""

    def __init__(self, sources: Sources, *, live: bool = True) -> None:
        self.sources, self.live = sources, live

    def runs(self) -> dict[str, Any]:
        """All runs, those included that have begun since."""
        self.sources.look()
        listed = [run.told() for run in self.sources.runs.values()]
        return {"version": hpfl.__version__, "live": self.live, "runs": listed}

    def watched(self, name: str) -> Watched:
        """A run by its id."""
        try:
            return self.sources.runs[name]
        except KeyError:
            raise UnknownError("there is no such run") from None

    def run(self, name: str) -> WatchedRun:
        """A run by its id that has a folder."""
        found = self.watched(name)
        if not isinstance(found, WatchedRun):
            raise UnknownError("a cloud's address tells of nodes and new rounds alone; name its folder for the rest")
        return found

    def columns(self, name: str, span: RoundSpan) -> dict[str, Any]:
        """Columns of rounds."""
        return self.watched(name).columns(*span)

    def round(self, name: str, number: int) -> dict[str, Any]:
        """One round whole."""
        found = detail_of(self.run(name), number)
        if found is None:
            raise UnknownError(f"the run has no round {number}")
        return found

    def gantt(self, name: str, span: RoundSpan) -> dict[str, Any]:
        """Rows of the timeline."""
        run = self.run(name)
        run.refresh()
        count = len(run.rounds)
        first, last = max(span[0] or 1, 1), min(span[1] or count, count)
        found = gantt_between(RoundLines(run.folder / TIMELINE), first, last) if first <= last else None
        if found is None:
            raise UnknownError("the run has no timeline of these rounds")
        return found

    def edges(self, name: str, span: RoundSpan) -> dict[str, Any]:
        """Matrices of edges over rounds."""
        return edges_between(self.run(name), *span)

    def plans(self, name: str, span: RoundSpan) -> dict[str, Any]:
        """What plans say of themselves over rounds."""
        return plans_between(self.run(name), *span)

    def ues(self, name: str, ue: int | None) -> dict[str, Any]:
        """The table of UEs, or one row of it."""
        path = self.run(name).folder / UES
        found = ues_of(path) if ue is None else one_ue(path, ue)
        if found is None:
            raise UnknownError("the run has no such UE" if ue is not None else "the run has no table of UEs yet")
        return found

    def nodes(self, name: str) -> dict[str, Any]:
        """The nodes of a deployment."""
        run = self.watched(name)
        found = run.nodes() if isinstance(run, WatchedCloud) else nodes_of(self.run(name).folder)
        if found is None:
            raise UnknownError("the run has no nodes: it is simulated, or has not begun")
        return found
