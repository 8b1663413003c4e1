"""How a message is refused: by a rule that has a name, with a reason that says what came and what was wanted."""

from typing import Literal

Code = Literal[
    "version",
    "configuration",
    "identity",
    "run",
    "stale",
    "repeated",
    "unexpected",
    "malformed",
    "size",
    "type",
    "shape",
    "order",
    "digest",
    "nonfinite",
    "norm",
    "samples",
    "weight",
    "late",
    "empty",
]
"""The rules; metrics count refusals by them."""


class RefusedError(Exception):
    """A message that must not take effect."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code: Code = code
        self.reason = reason
