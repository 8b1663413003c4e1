"""What UEs keep between rounds and edges' combine rules remember, in the state of a run; and what it was before.

Rows per UE are by name, `method` [N, S] and `uplink` [N, U]: tensors, or rows stored elsewhere. States of rules are by
edge. Where UEs can be lost after they have computed, `method_before` and `uplink_before` are the rows before each UE's
last computation, and rules have a state `before`, so that an edge's update can be computed again without the lost, or
as it is uploaded.

Whoever codes an upload keeps what did not arrive: `codec` [N, U] of UEs, `edge_codec` [K, U] of edges. These change
when the edge's update has arrived at the cloud, and not before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from hpfl.arrays import IntArray
from hpfl.learning import Kept
from hpfl.learning.kept import AnyRows, replaced, with_rows_of
from hpfl.learning.sending import Sending
from hpfl.training.combine import RuleState

KeptRows = Mapping[str, AnyRows]
Rules = Mapping[str, Mapping[str, RuleState]]

NAMES = ("method", "uplink")
CODEC, EDGE_CODEC = "codec", "edge_codec"
NOW, BEFORE = "now", "before"


@dataclass(frozen=True)
class Remembered:
    """What is kept by all UEs, and what the rules of all edges remember; most runs have neither."""

    rows: KeptRows = field(default_factory=dict)
    rules: Rules = field(default_factory=dict)

    def of_ues(self, ues: IntArray, *, again: bool = False, codec: bool = False) -> Kept:
        """The rows of some UEs; those before their last computation, where they are to do it `again`.

        Those of their `codec` are there where they are asked for.
        """
        if not self.rows:
            return Kept()
        rows = {name: self.rows[_before(name) if again else name] for name in NAMES if name in self.rows}
        if codec and CODEC in self.rows:
            rows[CODEC] = self.rows[CODEC]
        return Kept.of(**rows).read(ues)

    def of_edges(self, edges: IntArray, *, again: bool = False) -> list[RuleState]:
        """The states of some edges' rules, empty where there is none; no states where no rule remembers anything."""
        if not self.rules:
            return []
        known = self.rules.get(BEFORE if again else NOW, {})
        return [known.get(str(edge), {}) for edge in edges.tolist()]

    def computed(self, ues: IntArray, rows: Kept, *, again: bool, before: bool) -> "Remembered":
        """With the new rows of UEs that have computed; what theirs were is remembered where `before` is wanted."""
        new = {name: own for name in NAMES if (own := getattr(rows, name)) is not None and name in self.rows}
        if not new:
            return self
        changed = dict(self.rows)
        for name, own in new.items():
            old = self.rows[name]
            if before and not again:
                changed[_before(name)] = with_rows_of(self.rows.get(_before(name), old), ues, old)
            changed[name] = replaced(old, ues, own)
        return Remembered(changed, self.rules)

    def uploaded(self, name: str, members: IntArray, rows: torch.Tensor | None) -> "Remembered":
        """With what those who coded an upload keep since it arrived: UEs (`codec`) or edges (`edge_codec`)."""
        if rows is None or name not in self.rows:
            return self
        return Remembered({**self.rows, name: replaced(self.rows[name], members, rows)}, self.rules)

    def combined(self, edges: IntArray, states: Sequence[RuleState], *, again: bool, before: bool) -> "Remembered":
        """With the new states of the rules of edges that have combined, likewise."""
        if not self.rules and not any(states):
            return self
        names = [str(edge) for edge in edges.tolist()]
        now = {**self.rules.get(NOW, {}), **dict(zip(names, states, strict=True))}
        if not before:
            return Remembered(self.rows, {NOW: now})
        earlier = self.rules.get(BEFORE, {})
        if not again:
            own = self.of_edges(edges) or [{} for _ in names]
            earlier = {**earlier, **dict(zip(names, own, strict=True))}
        return Remembered(self.rows, {NOW: now, BEFORE: earlier})


def first_rows(sending: Sending, params: torch.Tensor, num_ues: int) -> dict[str, torch.Tensor]:
    """What all UEs keep that begin with the model `params` [P], the same row for each; they may share their memory."""
    first = sending.first_rows(params, np.zeros(1, dtype=np.int64))
    return {name: own.expand(num_ues, -1) for name in NAMES if (own := getattr(first, name)) is not None}


def first_errors(sending: Sending, params: torch.Tensor, num_ues: int, num_edges: int) -> dict[str, torch.Tensor]:
    """What those who code uploads keep before the first; nothing, where no codec of the menu feeds errors back."""
    numbers = sending.numbers_of_codec
    counts = {CODEC: num_ues, EDGE_CODEC: num_edges} if numbers else {}
    return {name: params.new_zeros(1, numbers).expand(count, -1) for name, count in counts.items()}


def kept_of(rows: KeptRows, ues: IntArray | None) -> Kept:
    """The rows of some UEs (None: all) as a cohort takes them."""
    kept = Kept.of(**{name: rows[name] for name in NAMES if name in rows})
    return kept if ues is None else kept.rows(ues)


def _before(name: str) -> str:
    return f"{name}_before"
