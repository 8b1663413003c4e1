"""Updates and evaluation of chunks by the layer-wise calculus."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hpfl.learning.batches import Batch, Samples, weighed_rows
from hpfl.learning.chain.chain_calculus import Chain, ChainCalculus, Direction, Point, Tape
from hpfl.learning.chain.convolution import Convolution, Recent
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.free import Flatten
from hpfl.learning.chain.ghost import squared_norms
from hpfl.learning.chain.link import Link
from hpfl.learning.chain.output import CrossEntropy
from hpfl.learning.chain.pooled import PooledLink, pooled
from hpfl.learning.chain.reading import chain_of
from hpfl.learning.chain.weighted import Grams, Slots, Weights, add_to_groups
from hpfl.learning.engine import Losses, Sums
from hpfl.learning.metrics import Tested, TestOutputs
from hpfl.learning.objective import OBJECTIVES, LocalTraining, MetaGradient, adapted
from hpfl.learning.precision import repeatable
from hpfl.learning.rehearsal import Rehearsal, Rehearsed
from hpfl.learning.shared import ProductTable
from hpfl.learning.task import Task

_CACHED_BYTES = 1_500_000  # of a layer's outputs in a chunk: what a core's own cache holds


@dataclass(frozen=True)
class ChainEngine:
    """Gradients of a chunk of UEs for a feed-forward chain."""

    task: Task
    training: LocalTraining
    chain: Chain
    preferred_samples: int | None = None
    preferred_ues: int | None = None
    side_by_side: ClassVar[bool] = False
    clips: ClassVar[bool] = True

    @staticmethod
    def choose(task: Task, training: LocalTraining, samples: Samples) -> "ChainEngine | None":
        """The engine of a task whose module is a chain, seen to give what the general engine does."""
        chain, (example, _) = chain_of(task), samples.example(2)
        if chain is None or (isinstance(chain.output, CrossEntropy) and int(samples.targets.min()) < 0):
            return None  # a target that is marked as ignored has no place among the closed form's classes
        chain = replace(chain, links=tuple(pooled(link, example) for link in chain.links))
        engine = ChainEngine(task, training, chain)
        try:
            with torch.no_grad(), repeatable():
                widest = engine._widest(example)
                if widest is None or not engine._rehearsed(samples):
                    return None
        except (RuntimeError, ValueError, IndexError):  # where the general engine fails too, it will say so
            return None
        preferred = max(_CACHED_BYTES // (widest * torch.finfo(samples.dtype).bits // 8), 1)
        return replace(engine, preferred_samples=None if example.is_cuda else preferred)

    def _rehearsed(self, samples: Samples) -> bool:
        """Whether updates and evaluations are the general engine's: layer-wise in float64, and as a GPU will run."""
        rehearsal = Rehearsal.of(self.task, self.training, samples)
        expected, chain = rehearsal.expected(), chain_of(rehearsal.task)
        assert chain is not None  # it was one in another precision
        if not ChainEngine(rehearsal.task, rehearsal.training, chain)._gives(rehearsal, expected):
            return False
        if not samples.inputs.is_cuda:
            return True
        there = rehearsal.on(samples.inputs.device, samples.dtype)
        return replace(self, training=there.training)._gives(there, expected)

    def _gives(self, rehearsal: Rehearsal, expected: Rehearsed) -> bool:
        return rehearsal.gives(self, expected, None if self.gram_bias is None else self.gram)

    @property
    def gram_bias(self) -> bool | None:
        """Whether inner products of inputs carry the bias of a dense first layer; None if it is not dense."""
        first = self.chain.links[0].layer
        return first.has_bias if isinstance(first, Dense) else None

    @property
    def dense(self) -> bool:
        """Whether all layers with weights are dense."""
        return all(isinstance(link.layer, Dense) for link in self.chain.links)

    @property
    def recordable(self) -> bool:
        """Whether a round is made of launches that a GPU can record and replay."""
        return all(isinstance(link, PooledLink) or isinstance(link.layer, Dense) for link in self.chain.links)

    def gram(self, batch: Batch) -> Tensor:
        """Inner products of what the first dense layer sees of each UE's inputs, plus 1 for the bias."""
        inputs = batch.inputs
        at_once = len(inputs) if all(isinstance(free, Flatten) for free in self.chain.first) else 1  # views or copies
        product = inputs.new_empty(*inputs.shape[:2], inputs.shape[1])
        for own, into in zip(torch.split(inputs, at_once), torch.split(product, at_once), strict=True):
            rows = self.chain.entering(own)
            torch.bmm(rows, rows.mT, out=into)
        return product.add_(1) if self.gram_bias else product

    def table(self, samples: Samples) -> ProductTable:
        """What the first dense layer makes of inputs [N, ...] that many UEs share."""
        rows = self.chain.entering(samples.as_numbers(samples.inputs).unsqueeze(0))[0]
        return ProductTable.of(rows, samples.shards.first, samples.shards.every_row(), bias=bool(self.gram_bias))

    def table_bytes(self, samples: Samples) -> int:
        """Bytes of their table."""
        (out, into), count = self.chain.links[0].layer.outer_shape, len(samples.inputs)
        places = 4 * int(samples.shards.sizes.sum()) + 8 * len(samples.shards.sizes)
        return count * (count + into + out) * samples.input_itemsize + places

    @property
    def shares(self) -> bool:
        """Whether inputs enter a dense first layer as they are, so that a table of them can be made."""
        return self.gram_bias is not None and all(isinstance(free, Flatten) for free in self.chain.first)

    def look_up(self, start: Tensor, table: ProductTable) -> None:
        """Compute what the table knows at a start that all UEs share, before anybody needs it."""
        if start.ndim == 1:
            first = self._weights(start)[0]
            table.outputs(first.weight, first.bias)

    @torch.no_grad()
    def updates(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None = None
    ) -> Losses:
        """Add the update directions of a chunk to its group sums; objectives keep nothing."""
        objective, weights = OBJECTIVES.get(self.training.objective), self._weights(start)
        point: Point = None
        total: Direction | None = None
        first: MetaGradient | None = None
        calculus = self._calculus(weights, steps[0])
        for batches in steps:
            calculus = calculus.on(batches)
            result = objective(calculus, point, self.training)
            first = first or result
            total = result.direction if total is None else calculus.plus(total, 1.0, result.direction)
            if len(steps) > 1:
                point = calculus.moved(point, -self.training.outer_lr, result.direction)
        assert first is not None
        assert total is not None
        squared = None if sums.clip is None else squared_norms(calculus.chain.links, total)
        sums = sums if squared is None else sums.clipped(squared)
        for link, delta in zip(calculus.chain.links, total, strict=True):
            add_to_groups(link.layer, delta, self._slots(link), sums)
        return Losses(first.loss, first.meta_loss, squared=squared)

    @torch.no_grad()
    def evaluation(
        self, parameters: Tensor, train: Batch, test: Batch, training: LocalTraining, kept: Tensor | None = None
    ) -> Tested:
        """Losses before and after the inner steps of `training`, and what both models say of the test samples."""
        calculus = self._calculus(self._weights(parameters), {"support": train, "test": test})
        theta, path = adapted(calculus, None, training, keep=False)
        meta_loss, _, _ = self.chain.output.errors(calculus.forward(theta, Tape(train)), train)
        loss = path[0].loss if path else meta_loss
        outputs = [calculus.forward(point, Tape(test)) for point in (theta, None)]
        weighed = replace(test, weights=weighed_rows(test.targets, test.weights, self.task.mass))

        def losses(outputs: Tensor) -> Tensor:
            return self.chain.output.errors(outputs, weighed)[0]

        tests = (TestOutputs(own, test.targets, test.weights, self.task, losses) for own in outputs)
        return Tested(loss, meta_loss, *tests)

    def _calculus(self, weights: list[Weights], batches: dict[str, Batch]) -> ChainCalculus:
        links = tuple(_remembering(link, number == 0) for number, link in enumerate(self.chain.links))
        return ChainCalculus(replace(self.chain, links=links), weights, batches)

    def _weights(self, start: Tensor) -> list[Weights]:
        parts = self.task.spec.unflatten(start)
        return [
            Weights(parts[f"{link.layer.name}.weight"], parts.get(f"{link.layer.name}.bias"), start.ndim == 2)
            for link in self.chain.links
        ]

    def _slots(self, link: Link) -> Slots:
        places = self.task.spec.places
        name = link.layer.name
        return Slots(places[f"{name}.weight"], places.get(f"{name}.bias"))

    def _widest(self, example: Tensor) -> int | None:
        """The most numbers that a sample of an example has at any layer's outputs; None: these are not the module's."""
        nothing = example.new_zeros(1, len(example))
        batch, flat = Batch(example.unsqueeze(0), nothing, nothing), self.task.flat_template()
        tape = Tape(batch)
        outputs = self._calculus(self._weights(flat), {"support": batch}).forward(None, tape)
        flat_rows = all(
            passage.rows.ndim == 3
            for link, passage in zip(self.chain.links, tape.passages, strict=True)
            if isinstance(link.layer, Dense)
        )
        if not flat_rows:  # a dense layer over tokens or channels
            return None
        if not torch.allclose(outputs[0], self.task.module(example), rtol=1e-3, atol=1e-4):
            return None
        return max([outputs[0, 0].numel(), *(int(passage.rows[0, 0].numel()) for passage in tape.passages[1:])])


def _remembering(link: Link, first: bool) -> Link:
    """A link whose layer remembers, for the chunk at hand, what is asked for more than once."""
    if isinstance(link.layer, Convolution) and not isinstance(link, PooledLink):
        return replace(link, layer=replace(link.layer, recent=Recent()))
    if first and isinstance(link.layer, Dense):
        return replace(link, layer=replace(link.layer, grams=Grams()))
    return link
