"""What a child says of itself when it greets, and which key of its file is wrong where it does not fit its parent."""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpfl.config import Experiment
from hpfl.config.differences import deciding
from hpfl.config.render import to_toml
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import VERSION
from hpfl.learning import Task

_HASH_BYTES = 4
_MOST_KEYS = 400
_MOST_DIMENSIONS = 16
_MOST_TOLD = 5
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Shapes:
    """What models and samples look like at a node: shape of an input, outputs, and a digest of all parameters' shapes.

    `keys` are short hashes of the experiment's settings, by key.
    """

    input_shape: tuple[int, ...]
    num_outputs: int
    parameters: bytes
    fingerprint: str
    keys: Mapping[str, bytes]

    @staticmethod
    def of(experiment: Experiment, task: Task, input_shape: tuple[int, ...], num_outputs: int) -> "Shapes":
        """Those of an experiment's model."""
        text = repr([(name, tuple(shape)) for name, shape in zip(task.spec.names, task.spec.shapes, strict=True)])
        parameters = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
        settings = deciding(tomllib.loads(to_toml(experiment)))
        keys = {key: _short(value) for key, value in sorted(settings.items())[:_MOST_KEYS]}
        return Shapes(input_shape, num_outputs, parameters, experiment.fingerprint, keys)

    def hello(self, *, number: int, **more: Any) -> Any:
        """The greeting of a child of this number."""
        return pb.Hello(
            version=VERSION,
            fingerprint=self.fingerprint,
            number=number,
            input_shape=self.input_shape,
            num_outputs=self.num_outputs,
            parameters=self.parameters,
            key=list(self.keys),
            key_hash=b"".join(self.keys.values()),
            **more,
        )

    def check(self, hello: Any, *, name: str, number: int) -> None:
        """Refuse a child whose experiment, number or shapes are others, naming the keys; what it leaves out may be."""
        if hello.fingerprint != self.fingerprint:
            raise RefusedError("configuration", self._differences(hello, name))
        pairs = {
            "number": (hello.number if hello.HasField("number") else number, number),
            "input_shape": (list(hello.input_shape)[:_MOST_DIMENSIONS] or list(self.input_shape), [*self.input_shape]),
            "num_outputs": (hello.num_outputs or self.num_outputs, self.num_outputs),
        }
        for key, (theirs, mine) in pairs.items():
            if theirs != mine:
                raise RefusedError("configuration", f"{key} is {theirs} at {name}, {mine} here")
        if hello.parameters and hello.parameters != self.parameters:
            raise RefusedError("configuration", f"learning.model makes other parameters at {name} than here")

    def _differences(self, hello: Any, name: str) -> str:
        """The keys in which two experiments differ; where they are not told, the fingerprints."""
        hashes, size = hello.key_hash, _HASH_BYTES
        told = {}
        if len(hello.key) <= _MOST_KEYS and len(hashes) == size * len(hello.key):
            told = {key: hashes[size * at : size * (at + 1)] for at, key in enumerate(hello.key)}
        known = [key for key in self.keys if told and told.get(key) != self.keys[key]]
        if not known:
            return f"{name} runs configuration {hello.fingerprint!r}, here it is {self.fingerprint!r}"
        more = f" and {len(known) - _MOST_TOLD} more" if len(known) > _MOST_TOLD else ""
        return f"{name} runs another experiment: {', '.join(known[:_MOST_TOLD])}{more} differ from here"


def remembered(hello: Any) -> Any:
    """What of a greeting is looked at later; the rest would be kept for as long as its stream."""
    return pb.Hello(num_samples=hello.num_samples, visitor=hello.visitor)


def _short(value: Any) -> bytes:
    return hashlib.blake2b(repr(value).encode(), digest_size=_HASH_BYTES).digest()
