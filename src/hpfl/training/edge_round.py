"""What edges do in a round: let their UEs take local steps, combine their updates, and repeat `edge_rounds` times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning import CohortUpdates, Computes, Kept
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.masking.cell_sum import CellSum
from hpfl.rng import Streams
from hpfl.training.combine import Combine, CombineError, Contribution, RuleState, combined
from hpfl.training.masked_sum import MaskedRound
from hpfl.training.private_cells import CellPrivacy, Cells

_MOST_EDGE_ROUNDS = 1 << 20  # room for edge rounds inside the key of a cloud round's draws
_MOST_ROWS = 4096  # UEs whose updates are computed at once, where a rule needs them all


@dataclass(frozen=True, kw_only=True)
class EdgeSettings:
    """The constants of an edge round (paper, section 3.2).

    `combine` joins the UEs' updates; None is their mean, added up one by one. Another rule is given all updates of an
    edge at once, which may take `memory_gb` of memory. `cell` is what UEs add up under masks instead, in whole numbers
    (None: their updates come one by one). `private` clips updates and noises their mean (None: neither).
    """

    outer_lr: float
    edge_rounds: int = 1
    weighting: Literal["uniform", "samples"] = "uniform"
    combine: Combine | None = None
    memory_gb: float = 4.0
    cell: CellSum | None = None
    private: CellPrivacy | None = None


@dataclass(frozen=True, kw_only=True)
class Participants:
    """UEs that compute under edges 0..E-1, in the order of these, with what they keep and their edges' rules remember.

    `rules` has a state for each edge; none stands for empty ones. `numbers` are those of the edges in the run (None:
    these).
    """

    ues: IntArray
    edge_of: IntArray
    weights: FloatArray
    kept: Kept = field(default_factory=Kept)
    rules: Sequence[RuleState] = ()
    numbers: IntArray | None = None

    @property
    def num_edges(self) -> int:
        """Number E of edges."""
        return int(self.edge_of.max()) + 1

    def of_edges(self, first: int, end: int) -> "Participants":
        """Those of the edges from `first` to before `end`, renumbered."""
        at = np.flatnonzero((self.edge_of >= first) & (self.edge_of < end))
        return Participants(
            ues=self.ues[at],
            edge_of=self.edge_of[at] - first,
            weights=self.weights[at],
            kept=self.kept.rows(at),
            rules=self.rules[first:end],
            numbers=None if self.numbers is None else self.numbers[first:end],
        )

    def some(self, at: IntArray) -> "Participants":
        """Those in some places, under edges that keep their numbers here."""
        return replace(
            self, ues=self.ues[at], edge_of=self.edge_of[at], weights=self.weights[at], kept=self.kept.rows(at)
        )


@dataclass(frozen=True)
class EdgeResult:
    """Updates `u_k` [E, P] of the edges that computed, their squared norms, and what is kept and remembered now.

    `noise` [E, C] is what each chain of codecs that was asked of would add to an edge's mean; `num_scaled` UEs have
    scaled their update down to the range that masks allow.
    """

    update: torch.Tensor
    importance: FloatArray
    kept: Kept = field(default_factory=Kept)
    rules: Sequence[RuleState] = ()
    noise: FloatArray | None = None
    num_scaled: int = 0


def draw_key(base_round: int, edge_round: int) -> int:
    """The key of a UE's draws in one edge round on the model of `base_round`; a deployed UE uses the same."""
    return base_round * _MOST_EDGE_ROUNDS + edge_round


def base_round_of(key: int) -> int:
    """The round of the model on which a UE computes that draws by a key."""
    return key // _MOST_EDGE_ROUNDS


def member_weights(num_samples: IntArray, settings: EdgeSettings) -> FloatArray:
    """Weights of members in a mean: all alike, or by their samples."""
    counts = np.ones(len(num_samples)) if settings.weighting == "uniform" else num_samples
    return np.asarray(counts, dtype=np.float64)


def edge_updates(
    cohort: Computes,
    params: torch.Tensor,
    who: Participants,
    *,
    base_round: int,
    settings: EdgeSettings,
    streams: Streams,
    coding: Coding = UNCODED,
) -> EdgeResult:
    """`u_k = (w_v - edge model) / beta` of the edges of `who`, all starting at `params`, the model of `base_round`.

    Where UEs upload by a `coding`, it is that of what arrives of them.
    """
    total: torch.Tensor | None = None
    start, noise, num_scaled = params, None, 0
    for edge_round in range(settings.edge_rounds):
        asking = _Asking(cohort, streams, draw_key(base_round, edge_round), coding)
        if settings.cell is not None and (coding.asks or not settings.cell.coded):
            result = _under_masks(asking, start, who, settings)
        elif settings.private is not None:
            result = _privately(asking, start, who, settings.private)
        elif settings.combine is None:
            result = _added_up(asking, start, who)
        else:
            result = _all_at_once(asking, start, who, settings)
        if settings.edge_rounds == 1:
            return result
        total = result.update if total is None else total + result.update
        noise = result.noise if noise is None or result.noise is None else noise + result.noise
        num_scaled += result.num_scaled
        start = params - settings.outer_lr * total
        who = replace(who, kept=result.kept, rules=result.rules)
    assert total is not None
    return EdgeResult(total, squared_norms(total), who.kept, who.rules, noise, num_scaled)


def squared_norms(updates: torch.Tensor) -> FloatArray:
    """Squared norms of the rows of `updates` [E, P], in float64."""
    return np.asarray((updates.to(torch.float64) ** 2).sum(dim=1).cpu().numpy())


@dataclass(frozen=True)
class _Asking:
    """Who is asked for updates in an edge round, and where its draws come from."""

    cohort: Computes
    streams: Streams
    key: int
    coding: Coding = UNCODED

    def updates(self, start: torch.Tensor, who: Participants, *, keep_per_ue: bool = False) -> CohortUpdates:
        """The updates of UEs from `start`, [P] or a row for each edge."""
        return self.cohort.updates(
            start,
            ues=who.ues,
            groups=who.edge_of,
            num_groups=who.num_edges,
            weights=who.weights,
            streams=self.streams,
            key=self.key,
            kept=who.kept,
            keep_per_ue=keep_per_ue,
            coding=self.coding,
        )


def _added_up(asking: _Asking, start: torch.Tensor, who: Participants) -> EdgeResult:
    """The means over the edges' UEs, which are added up as they are computed."""
    result = asking.updates(start, who)
    return EdgeResult(result.update, result.importance, result.kept, who.rules, result.noise)


def _privately(asking: _Asking, start: torch.Tensor, who: Participants, private: CellPrivacy) -> EdgeResult:
    """The means of clipped updates with their noise; what is learnt of them here is learnt from these alone."""
    clip = private.clip_norms(who.rules, who.num_edges)
    result = replace(asking, coding=replace(asking.coding, clip=clip)).updates(start, who)
    assert result.norms is not None
    noised, rules = private.released(result.update, result.norms, _cells(asking, who), clip)
    return EdgeResult(noised, squared_norms(noised), result.kept, rules or who.rules, result.noise)


def _cells(asking: _Asking, who: Participants) -> Cells:
    numbers = np.arange(who.num_edges) if who.numbers is None else who.numbers
    return Cells(numbers, who.ues, who.edge_of, asking.key)


def _all_at_once(asking: _Asking, start: torch.Tensor, who: Participants, settings: EdgeSettings) -> EdgeResult:
    """What the rule makes of the updates of each edge's UEs, kept for as many edges at a time as memory allows."""
    assert settings.combine is not None
    counts = np.bincount(who.edge_of)
    most = most_kept(settings, num_parameters=start.shape[-1], bytes_each=start.element_size())
    check_room(settings, counts, num_parameters=start.shape[-1], bytes_each=start.element_size())
    updates, rules, kept, noise = [], [], who.kept.unwritten(), list[FloatArray]()
    as_mean: list[bool] = []
    for first, end in _stretches(counts, min(most, _MOST_ROWS)):
        some = who.of_edges(first, end)
        own = asking.updates(start[first:end] if start.ndim == 2 else start, some, keep_per_ue=True)
        assert own.per_ue is not None
        kept.write(np.flatnonzero((who.edge_of >= first) & (who.edge_of < end)), own.kept)
        noise += [] if own.noise is None else [own.noise]
        for edge in range(end - first):
            came = _contributions(some, own.per_ue, edge)
            joined = combined(settings.combine, came, some.rules[edge] if some.rules else {})
            updates.append(joined.direction.to(start.dtype))
            as_mean.append(joined.is_mean)
            rules.append(joined.state)
    stacked = torch.stack(updates)
    if any(as_mean):  # sums of rows are rounded otherwise than rows that are summed as they are computed
        stacked[as_mean] = asking.updates(start, who).update[as_mean]
    return EdgeResult(stacked, squared_norms(stacked), kept, rules, np.concatenate(noise) if noise else None)


def _under_masks(asking: _Asking, start: torch.Tensor, who: Participants, settings: EdgeSettings) -> EdgeResult:
    """The means from the exact sums of the words that UEs send, who code their updates as their cell has agreed.

    Where cells are private UEs clip their updates shorter by what rounding to whole numbers may add, so that a UE's
    words are no longer than the clip norm either, and the sum is noised.
    """
    assert settings.cell is not None
    private, clip = settings.private, None
    if private is not None:
        clip = private.clip_norms(who.rules, who.num_edges)
    plain = replace(asking, coding=UNCODED if clip is None else Coding(clip=clip - settings.cell.rounding))
    fits = most_kept(settings, num_parameters=start.shape[-1], bytes_each=start.element_size())

    def updates(some: Participants) -> CohortUpdates:
        own = start[: some.num_edges] if start.ndim == 2 else start
        return plain.updates(own, some, keep_per_ue=True)

    cells = MaskedRound(settings.cell, asking.streams, asking.key, max(min(fits, _MOST_ROWS), 1))
    found = cells.means(updates, who, start)
    update = found.update
    if private is not None and clip is not None:
        update, _ = private.released(update, np.zeros(0), _cells(asking, who), clip)
    return EdgeResult(update, squared_norms(update), found.kept, found.rules, num_scaled=found.num_scaled)


def _contributions(who: Participants, per_ue: torch.Tensor, edge: int) -> list[Contribution]:
    at = np.flatnonzero(who.edge_of == edge)
    ues, weights = who.ues[at].tolist(), who.weights[at].tolist()
    rows = per_ue[torch.from_numpy(at).to(per_ue.device)].unbind()
    return [Contribution(ue, row, weight) for ue, row, weight in zip(ues, rows, weights, strict=True)]


def _stretches(counts: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Stretches of edges, from first to before end, that have at most so many UEs together, or one edge."""
    first, together = 0, 0
    for edge, count in enumerate(counts.tolist()):
        if edge > first and together + count > most:
            yield first, edge
            first, together = edge, 0
        together += count
    yield first, len(counts)


def most_kept(settings: EdgeSettings, *, num_parameters: int, bytes_each: int) -> int:
    """How many UEs' updates of so many numbers fit an edge's memory."""
    return int(settings.memory_gb * 1e9 / (num_parameters * bytes_each))


def check_room(settings: EdgeSettings, counts: IntArray, *, num_parameters: int, bytes_each: int) -> None:
    """Refuse a rule that needs all updates of an edge at once where those of `counts` UEs [E] do not fit."""
    if settings.combine is None or not counts.size:
        return
    largest = int(counts.max())
    if largest > most_kept(settings, num_parameters=num_parameters, bytes_each=bytes_each):
        need_gb = largest * num_parameters * bytes_each / 1e9
        raise CombineError(
            f"the edges' combine rule needs all updates of an edge at once, and those of {largest} UEs take"
            f" {need_gb:.3g} GB; learning.memory_gb leaves {settings.memory_gb:.3g} GB for them"
        )
