"""Steps from model to model on their way down: what a receiver lacks, as coded messages, instead of the whole model.

A step is one message that the cloud has coded, or the messages of the edges that it was made of with a factor for each.
Whoever takes the steps from the model it holds ends with the model that their tag names, to the last bit, or refuses
them and is sent the model whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.update_format import UpdateFormat
from hpfl.deployment.wire import DIGEST_BYTES, Arrival, Tag, Vector, VectorSpec, vector_frames
from hpfl.training.step_coding import SentStep

if TYPE_CHECKING:
    from hpfl.deployment.audit import Uploaded
    from hpfl.deployment.named_model import NamedModel

_MOST_MESSAGES = 2**16  # of one step; there are not more edges


@dataclass(frozen=True, eq=False)
class ModelStep:
    """One step between two models, which go by their digests; without `factors` its one message is subtracted.

    `heard` UEs have their updates in the messages, where a part of these counts by their share (0: none does).
    """

    since: bytes
    to: bytes
    coding: int
    factors: tuple[float, ...]
    messages: tuple[Vector, ...]
    heard: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of its messages."""
        return sum(message.nbytes for message in self.messages)

    def head(self) -> Any:
        """What the head of a vector says of it."""
        return pb.Step(coding=self.coding, factor=self.factors, to=self.to, heard=self.heard)


def steps_of(taken: "Uploaded", after: "NamedModel") -> tuple[ModelStep, ...]:
    """The step that a cloud has just taken, for the wire; none where only the model travels."""
    step, since, to = taken.step, taken.before.tag.base, after.tag.base
    if step is None:
        return ()
    if step.encode is not None:
        return (ModelStep(since, to, step.coding, (), (np.frombuffer(step.encode(), dtype=np.uint8),)),)
    messages = tuple(part.message for part in taken.parts if part.message is not None)
    heard = 0 if taken.counted is None else taken.heard
    return (ModelStep(since, to, step.coding, step.factors, messages, heard),)


class StepLog:
    """The newest steps one after the other, as long as they are fewer bytes than the model they lead to."""

    def __init__(self, model: VectorSpec) -> None:
        self._most = model.nbytes
        self._steps: list[ModelStep] = []

    def add(self, steps: Iterable[ModelStep]) -> None:
        """Steps that have been taken; those that do not follow the ones before begin a new row."""
        for step in steps:
            if self._steps and self._steps[-1].to != step.since:
                self._steps.clear()
            self._steps.append(step)
        while sum(step.nbytes for step in self._steps) >= self._most:
            del self._steps[0]

    def between(self, since: bytes, to: bytes) -> tuple[ModelStep, ...]:
        """The steps from one model to another; none where they are not known, or not shorter than the model."""
        if not self._steps or self._steps[-1].to != to:
            return ()
        begins = [place for place, step in enumerate(self._steps) if step.since == since]
        return tuple(self._steps[begins[-1] :]) if begins else ()


def step_frames(tag: Tag, steps: Sequence[ModelStep]) -> tuple[bytes, ...]:
    """The frames that carry steps to the model of a tag."""
    content = np.concatenate([message for step in steps for message in step.messages])
    heads = [step.head() for step in steps]
    return tuple(vector_frames(tag, content, purpose=pb.TRAIN, since=steps[0].since, step=heads))


@dataclass(frozen=True)
class StepReader:
    """Reads steps that come: how long they are, and what they make of a model."""

    updates: UpdateFormat

    def expected(self, tag: Tag, begin: Any) -> VectorSpec:
        """What the vector of a head with steps must look like; never as long as the model."""
        sizes = [self._count(step) * self._message(step).nbytes for step in begin.step]
        names = [begin.since, *(step.to for step in begin.step)]
        if any(len(name) != DIGEST_BYTES for name in names) or names[-1] != tag.base:
            raise RefusedError("malformed", "steps came without the names of their models")
        if sum(sizes) > self.updates.model.nbytes:
            raise RefusedError("size", f"steps of {sum(sizes)} bytes came, more than those of the model")
        return VectorSpec(sum(sizes), np.dtype(np.uint8))

    def read(self, arrival: Arrival) -> tuple[ModelStep, ...]:
        """The steps that came, in order."""
        content, begin, since, steps = arrival.vector(), 0, arrival.begin.since, list[ModelStep]()
        for step in arrival.begin.step:
            size, count = self._message(step).nbytes, self._count(step)
            messages = tuple(content[begin + k * size : begin + (k + 1) * size] for k in range(count))
            steps.append(ModelStep(since, step.to, step.coding, tuple(step.factor), messages, step.heard))
            begin, since = begin + size * count, step.to
        return tuple(steps)

    def taken(self, vector: Vector, steps: Iterable[ModelStep]) -> Vector:
        """The model of a receiver that held `vector`, as the cloud moved its own."""
        params = torch.from_numpy(vector)
        for step in steps:
            params = self._sent(step).taken_by(params)
        return np.ascontiguousarray(params.numpy())

    def _sent(self, step: ModelStep) -> SentStep:
        found = tuple(torch.from_numpy(self.updates.decoded(message, step.coding)) for message in step.messages)
        if step.factors:
            counted = self.updates.counted
            as_joined = found if counted is None else tuple(counted.of(one, step.heard) for one in found)
            return SentStep(0.0, messages=as_joined, factors=step.factors)
        return SentStep(0.0, decoded=found[0])

    def _count(self, step: Any) -> int:
        if len(step.factor) > _MOST_MESSAGES:
            raise RefusedError("size", f"a step of {len(step.factor)} messages came")
        counted = self.updates.counted
        if step.heard and (counted is None or not step.factor or step.heard > counted.num_ues):
            raise RefusedError(
                "malformed", f"a step of the updates of {step.heard} UEs came; their number says nothing"
            )
        return max(len(step.factor), 1)

    def _message(self, step: Any) -> VectorSpec:
        if not self.updates.codes(step.coding):
            raise RefusedError("unexpected", "a step came that is not coded")
        return self.updates.ue_spec(step.coding)
