"""From what UEs compute to what arrives at their edges: the parameters that travel, over the uplink."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.batches import Batch
from hpfl.learning.coding import BY_UE, UNCODED, Coding, Travelling
from hpfl.learning.draws import Draws
from hpfl.learning.engine import Engine, InPlaceEngine, Losses, Sums, clip_factors, is_in_place
from hpfl.learning.faults import LearningError
from hpfl.learning.kept import Kept
from hpfl.learning.method import Method, is_silent
from hpfl.learning.norms import row_norms
from hpfl.learning.task import ParameterSpec
from hpfl.learning.uplink import Uplink


@dataclass(frozen=True)
class Sending:
    """What UEs keep and send by a method (None: an objective) and an uplink.

    `codings` is the menu of chains of codecs that an upload may be coded with, at a UE and again at its edge; empty:
    updates are sent as the uplink leaves them.
    """

    spec: ParameterSpec
    method: Method | None
    uplink: Uplink
    places: Tensor | None  # [n]: the parameters that travel; None: all
    codings: tuple[Uplink, ...] = ()
    staying: tuple[slice, ...] = ()  # where those lie that do not

    @staticmethod
    def of(
        spec: ParameterSpec,
        method: Method | None,
        uplink: Uplink,
        device: torch.device,
        *,
        codings: tuple[Uplink, ...] = (),
    ) -> "Sending":
        """How UEs send on a device."""
        travels = None if method is None else method.travels(spec)
        if travels is not None and (travels.dtype != torch.bool or travels.shape != (spec.num_parameters,)):
            found = f"{travels.dtype} of shape {tuple(travels.shape)}"
            raise LearningError(f"what travels of a model is {found}; wanted torch.bool of {spec.num_parameters}")
        if travels is not None and not bool(travels.any()) and not is_silent(method):
            raise LearningError(
                f"of the parameters {', '.join(spec.names)} the method lets none travel; wanted at least one to send"
            )
        places = None if travels is None else travels.nonzero()[:, 0].to(device)
        staying = () if travels is None else _stretches(~travels)
        return Sending(spec, method, uplink, places, codings, staying)

    @property
    def is_plain(self) -> bool:
        """Whether directions arrive as they are computed, and nothing is kept."""
        return self.method is None and self.uplink.is_identity

    @property
    def num_travelling(self) -> int:
        """How many numbers of a model a UE sends."""
        return self.spec.num_parameters if self.places is None else len(self.places)

    @cached_property
    def numbers_kept(self) -> tuple[int, int]:
        """Numbers S and U that a UE keeps between rounds: of the method, and of the uplink."""
        own = 0 if self.method is None else self.method.numbers_kept(self.spec)
        return own, self.uplink.numbers_kept(self.num_travelling)

    @property
    def numbers_of_codec(self) -> int:
        """Numbers U that whoever codes keeps between rounds, for whichever chain of the menu."""
        return max((chain.numbers_kept(self.num_travelling) for chain in self.codings), default=0)

    @property
    def travelling(self) -> Travelling:
        """The numbers of an update that are coded."""
        return Travelling(self.places)

    def first_rows(self, params: Tensor, groups: IntArray) -> Kept:
        """What UEs [n] keep that begin with `params` [P], or with the row of their group [groups, P]."""
        of_method, of_uplink = self.numbers_kept
        uplink = params.new_zeros(len(groups), of_uplink) if of_uplink else None
        if not of_method:
            return Kept(None, uplink)
        if params.ndim == 1:
            return Kept(self._first(params).expand(len(groups), -1), uplink)
        first = torch.stack([self._first(start) for start in params])
        return Kept(first[torch.from_numpy(groups).to(first.device)], uplink)

    def rows_of(self, kept: Kept | None, params: Tensor, groups: IntArray, coding: Coding = UNCODED) -> Kept:
        """The rows of UEs [n]: those given, and where none are, of UEs that begin."""
        given, first = kept or Kept(), self.first_rows(params, groups)
        _refuse_shape("method", given.method, (len(groups), self.numbers_kept[0]))
        _refuse_shape("uplink", given.uplink, (len(groups), self.numbers_kept[1]))
        errors = coding.chain.numbers_kept(self.num_travelling)
        return Kept(
            first.method if given.method is None or first.method is None else given.method,
            first.uplink if given.uplink is None or first.uplink is None else given.uplink,
            params.new_zeros(len(groups), errors) if given.codec is None and errors else given.codec,
        )

    def compute(
        self,
        engine: Engine,
        start: Tensor,
        steps: Sequence[dict[str, Batch]],
        sums: Sums,
        kept: Kept,
        draws: Draws,
        coding: Coding = UNCODED,
        room: Tensor | None = None,
    ) -> tuple[Losses, Kept]:
        """Add what arrives of a chunk of UEs to its sums; their losses, and what they keep now.

        `room` [u, S] is where the method's numbers may be written.
        """
        inside = sums.clip is None or (engine.clips and sums.per_ue is None)
        if is_in_place(engine) and self.uplink.is_identity and sums.clip is None and not coding.codes:
            return self._in_place(engine, start, steps, sums, kept, room)
        if self.is_plain and inside and not coding.codes:
            return engine.updates(start, steps, sums), kept
        directions = start.new_empty(len(draws.ues), start.shape[-1])
        of_method, of_uplink = (None if own is None else own.to(start) for own in (kept.method, kept.uplink))
        losses = engine.updates(start, steps, Sums.rows(directions), of_method)
        arrived, left = self._arrived(directions, of_uplink, draws)
        if sums.clip is not None:
            squared = row_norms(arrived)[:, 0].square()
            arrived = arrived * clip_factors(squared, sums.clip).to(arrived).unsqueeze(1)
            losses = replace(losses, squared=squared)
        own, errors = replace(draws, purpose=BY_UE), kept.codec
        if coding.foretold:
            losses = replace(losses, variance=self.travelling.variance(coding.foretold, arrived, errors, own))
        if not coding.chain.is_identity:
            arrived, errors = self.travelling.coded(coding.chain, arrived, errors, own)
        sums.add(arrived)
        return losses, Kept(None if of_method is None else losses.kept, left, errors)

    def _in_place(
        self,
        engine: InPlaceEngine,
        start: Tensor,
        steps: Sequence[dict[str, Batch]],
        sums: Sums,
        kept: Kept,
        room: Tensor | None,
    ) -> tuple[Losses, Kept]:
        """The same without a row for each UE."""
        of_method = None if kept.method is None else kept.method.to(start)
        losses = engine.updates_in_place(start, steps, sums, of_method, room)
        for rows in (sums.total,) if sums.per_ue is None else (sums.total, sums.per_ue):
            for stretch in self.staying:
                rows[:, stretch].zero_()
        return losses, Kept(None if of_method is None else losses.kept, kept.uplink, kept.codec)

    def _arrived(self, directions: Tensor, kept: Tensor | None, draws: Draws) -> tuple[Tensor, Tensor | None]:
        """What arrives of directions [u, P]: 0 where nothing travels; and what the uplink keeps."""
        if self.places is not None and self.uplink.is_identity:
            for stretch in self.staying:  # a fraction of the work of moving the others
                directions[:, stretch].zero_()
            return directions, kept
        own = directions if self.places is None else directions[:, self.places]
        if not self.uplink.is_identity:
            own, left = self.uplink.send(own, own[:, :0] if kept is None else kept, draws)
            kept = None if kept is None else left
        if self.places is None:
            return own, kept
        return torch.zeros_like(directions).index_copy_(1, self.places, own), kept

    def _first(self, params: Tensor) -> Tensor:
        assert self.method is not None
        first, wanted = self.method.first_kept(params, self.spec), self.numbers_kept[0]
        if first.shape != (wanted,):
            raise LearningError(f"a UE that begins keeps numbers of shape {tuple(first.shape)}; wanted ({wanted},)")
        return first.to(params)


def _stretches(marked: Tensor) -> tuple[slice, ...]:
    """Where the marked numbers of a vector lie side by side."""
    edges = torch.nn.functional.pad(marked.int(), (1, 1)).diff().nonzero()[:, 0].tolist()
    return tuple(slice(first, end) for first, end in zip(edges[::2], edges[1::2], strict=True))


def _refuse_shape(name: str, rows: Tensor | None, wanted: tuple[int, int]) -> None:
    if rows is not None and rows.shape != wanted:
        found = tuple(rows.shape)
        raise LearningError(f"what {wanted[0]} UEs keep of their {name} has shape {found}; wanted {wanted}")
