"""How an edge learns the means of its UEs' sketches and updates, and none of them: attempts, outcomes, checks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from typing import Any, Literal

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.deployment.checks import CheckedSketch, check_update
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_names import default_name
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_cell import LeftBetweenError, SecureCell
from hpfl.deployment.secure_format import CellAgreed, made_format, whole_weight
from hpfl.deployment.secure_trust import DeploymentTrust, check_name
from hpfl.deployment.secure_uncovering import ShownSums
from hpfl.deployment.secure_wire import SKETCH, UPDATE
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import EdgeNodeSettings
from hpfl.deployment.wire import Tag, Vector
from hpfl.quorums import quorum_of
from hpfl.secrecy import DisputedError, SecrecyError, Session, TooFewError, WrongMaskError

SumOutcome = Literal["summed", "too few", "left between", "disputed", "unmasked wrong", "refused"]
"""How a sum has ended: it is there; too few were left; others were left than in the sum of sketches; UEs say this and
that of shares; what was revealed leads nowhere; the sum breaks a rule."""

GatherHeld = Callable[[], Awaitable[dict[int, CheckedSketch]]]
"""Waits for the UEs that compute; what they say of themselves in the clear."""

SOONER = 0.8
"""Of the time a cloud waits for its edges, the share they wait for their UEs: their answer must come in time."""

_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
"""Between two attempts at one model, doubled each time."""
_AGREES_S = 30.0
"""No UE is waited for longer where those that are left agree on who they are."""


class SecureSums:
    """The secure sums of one edge; `mean` is what the newest sum of updates came to, `sketch` that of sketches.

    `missing` are UEs that it waits for by name: nobody else can be in a sum that may be uncovered already.
    """

    def __init__(self, settings: EdgeNodeSettings, work: SharedWork, side: ParentSide, slots: Collection[int]) -> None:
        self.format = made_format(work)
        self.threshold = quorum_of(len(slots))
        self.mean: Vector = np.zeros(0)
        self.sketch: FloatArray = np.zeros(0)
        self._sketched: set[int] = set()
        self._side, self._work, self._slots = side, work, slots
        self._limit_s = SOONER * settings.timing.compute_s
        self._number, self._scales = settings.number, self.format.first_agreed()
        for name, number in side.roster.items():
            check_name(name, number)
        self._trust = DeploymentTrust(settings.tls)
        self._cell: SecureCell | None = None
        self._only: Collection[int] | None = None
        self._bound: list[int] | None = None
        self._shown = ShownSums()
        self._gathered = False
        self.missing: list[str] = []

    # what UEs do

    def attached(self, child: Child) -> None:
        """A UE has come: it may still be in time."""
        if self._cell is not None and self._is_wanted(child.number):
            self._cell.invite([child])

    def gone(self, child: Child) -> None:
        """A UE has left."""
        if self._cell is not None:
            self._cell.gone(child)

    def take(self, child: Child, tag: Tag, message: Any) -> None:
        """A step of the session in hand."""
        self._open_cell.take(child, tag, message)

    def take_update(self, number: int, message: bytes) -> None:
        """A masked update."""
        self._open_cell.take_update(number, message)

    @property
    def _open_cell(self) -> SecureCell:
        if self._cell is None:
            raise RefusedError("unexpected", "a step of a secure sum came that nobody asked for")
        return self._cell

    # one edge round

    async def gathered(
        self, tag: Tag, gather: GatherHeld, only: Collection[int] | None, vacant: Callable[[bool], object]
    ) -> dict[int, CheckedSketch]:
        """Set a session up while UEs compute, again where too few are left; who is in, and the mean of their sketches.

        In a later edge round there are no sketches, and no second attempt. There is nobody where the model has
        diverged. Where a sum on this model may be uncovered already, it is learnt of the same UEs alone: those of them
        that are missing are waited for.
        """
        pause_s = _PAUSE_S
        while True:
            self.missing = [] if only is not None else _missing(self._shown.on(tag).get(SKETCH, []), self._side, tag)
            if self.missing:
                vacant(True)
            setting_up = self._begin(tag.by(self._side.name), only, vacant)
            try:
                held = await gather()
                self._gathered = True
                if not held:
                    return {}
                await setting_up
                assert self._cell is not None
                return held if only is not None else await self._sum_of_sketches(self._cell, held)
            except SecrecyError as error:
                self._failed(tag, error)
                if only is not None:
                    return {}
            finally:
                setting_up.cancel()
            vacant(True)
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)

    def able(self, numbers: Set[int]) -> Set[int]:
        """Those of some UEs that can still take part in this session: nobody waits for what the others compute."""
        return numbers if self._cell is None else self._cell.able(numbers)

    def begin_updates(self, of: Collection[int]) -> set[int]:
        """Masked updates are due; whom it is worth asking."""
        if self._cell is None:
            return set()
        return self._cell.begin_updates(set(of) & set(self._shown.on(self._cell.tag).get(UPDATE, of)))

    async def summed(self, tag: Tag, announced: Mapping[int, CheckedSketch]) -> set[int]:
        """Learn the mean of the masked updates that have come; whose it is, nobody's where there is none."""
        cell = self._open_cell
        try:
            bound = tag.edge_round == 0 and self._work.config.secure.leavers == "refused"
            only_of = self._sketched if bound else None
            words, survivors = await cell.summed(UPDATE, limit_s=min(self._limit_s, _AGREES_S), only_of=only_of)
        except SecrecyError as error:
            self._failed(tag, error)
            return set()
        agreed = CellAgreed(self._number, self._scales)
        found = self.format.update_mean(words, _weight(self._work, announced, survivors), tag, agreed)
        self.mean = np.asarray(found.update[0].numpy())
        try:
            self._check(tag, set(survivors))
        except RefusedError as error:
            _note(self._side.metrics, "refused")
            why = "the cell's sum is refused, and nobody can tell whose doing it is"
            log(why, level=logging.WARNING, round=tag.round, code=error.code, reason=error.reason)
            return set()
        self._scales = self.format.next_agreed(self._scales, found.clipped[0])
        _note(self._side.metrics, "summed")
        self._side.metrics.accepted.inc(len(survivors))
        return set(survivors)

    # how

    def _begin(self, tag: Tag, only: Collection[int] | None, vacant: Callable[[bool], object]) -> "asyncio.Task[None]":
        side, agreed = self._side, self._scales
        shown = self._shown.on(tag)
        bound = shown.get(SKETCH) if only is None else None
        self._only, self._bound, self._gathered = only, bound, False

        def made(attempt: bytes) -> Session:
            return self.format.session(tag, edge=side.name, attempt=attempt, agreed=agreed, slots=len(self._slots))

        self._trust.look()
        cell = self._cell = SecureCell(made, tag, side, self._slots, trust=self._trust, agreed=agreed, shown=shown)

        def is_early() -> bool:
            if bound is not None:  # nobody can stand in for any of them
                before, self.missing = self.missing, _missing(bound, side, tag, told=self.missing)
                if self.missing and self.missing != before:
                    vacant(True)
                return cell.num_heard < len(bound)
            return only is None and not self._gathered and (side.opening.is_early() or cell.num_heard < self.threshold)

        async def set_up() -> None:  # its first step comes after the models are on their way: UEs compute meanwhile
            cell.invite([child for number, child in side.hub.children.items() if self._is_wanted(number)])
            await cell.set_up(is_early, limit_s=self._limit_s)

        task = asyncio.get_running_loop().create_task(set_up())
        task.add_done_callback(_seen)
        return task

    async def _sum_of_sketches(self, cell: SecureCell, held: Mapping[int, CheckedSketch]) -> dict[int, CheckedSketch]:
        if self._bound is not None:
            known = self._side.gathering.held
            held = {number: known[number].sketch for number in self._bound if number in known}
        await cell.masked_sketches(held, limit_s=self._limit_s)
        words, survivors = await cell.summed(SKETCH, limit_s=min(self._limit_s, _AGREES_S))
        self.sketch = self.format.sketch_mean(words, _weight(self._work, held, survivors))
        self._sketched = set(survivors)
        return {ue: held[ue] for ue in survivors}

    def _check(self, tag: Tag, survivors: set[int]) -> None:
        """Refuse a mean that is too large, and one of another sketch than the same UEs have announced."""
        squared = check_update(self.mean, self._work.bounds)
        room = self.format.room
        if tag.edge_round == 0 and survivors == self._sketched and np.isfinite(room):
            self._work.sketches.check(self.mean, self.sketch, squared_norm=squared, room=room)

    def _is_wanted(self, number: int) -> bool:
        if self._bound is not None:
            return number in self._bound
        is_out = self._side.attendance.is_left_out(number)
        return not is_out and (self._only is None or number in self._only)

    def _failed(self, tag: Tag, error: SecrecyError) -> None:
        _note(self._side.metrics, next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), _WRONG))
        attendance, why = self._side.attendance, f"a secure sum could not be unmasked: {error}"
        if isinstance(error, WrongMaskError):
            for number in error.members:
                attendance.strike(number, why)
        elif isinstance(error, DisputedError):
            for number in error.members:  # one of them lies; who is in disputes again and again is left out
                attendance.missed(number, why)
        log("no secure sum", level=logging.WARNING, round=tag.round, edge_round=tag.edge_round, reason=str(error))


_WRONG: SumOutcome = "unmasked wrong"
_OUTCOMES: Mapping[type[SecrecyError], SumOutcome] = {
    TooFewError: "too few",
    LeftBetweenError: "left between",
    DisputedError: "disputed",
}


def _weight(work: SharedWork, said: Mapping[int, CheckedSketch], ues: Collection[int]) -> int:
    """The weight of some UEs together."""
    return sum(whole_weight(work.config, said[ue].num_samples) for ue in ues)


def _missing(bound: Collection[int], side: ParentSide, tag: Tag, told: Collection[str] = ()) -> list[str]:
    """The UEs that are not here with whom alone the others uncover a sum on a model again; it is said who, once."""
    for number in bound:
        side.attendance.need(number, "a sum on this model may be uncovered already, and is of the same UEs alone")
    missing = [default_name(number) for number in bound if number not in side.hub.children]
    if missing and missing != told:
        what = "waits for those who were in the sum, or for another model"
        log(what, level=logging.WARNING, round=tag.round, ues=missing)
    return missing


def _seen(task: "asyncio.Task[None]") -> None:
    """Look at how a set-up has ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def _note(metrics: Metrics, outcome: SumOutcome) -> None:
    metrics.secure.labels(outcome).inc()
