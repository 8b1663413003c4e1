"""How a message is refused: by a rule that has a name, with a reason that says what came and what was wanted."""

from typing import Literal, get_args

from hpfl.deployment.peer_text import plain

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
    "sketch",
    "range",
    "samples",
    "weight",
    "late",
    "empty",
    "crowded",
]
"""The rules; metrics count refusals by them."""

RULES: frozenset[str] = frozenset(get_args(Code))


UNUSABLE = frozenset({"nonfinite", "norm"})
"""Rules by which a child says itself that what it computes on a model would be refused."""
LIES = frozenset({"nonfinite", "norm", "sketch", "weight", "malformed"})
"""Rules that no honest child breaks with a sketch or an update that has come whole: it has looked at both itself."""
RETRIED = frozenset({"order", "size"})
"""Rules that refuse a spoiled transfer, which another attempt may mend."""
ATTEMPTS = 3
"""At one update, however often it is refused."""


class RefusedError(Exception):
    """A message that must not take effect; of a peer's words that the reason quotes, no more is kept than fits."""

    def __init__(self, code: Code, reason: str) -> None:
        self.code: Code = code
        self.reason = plain(reason)
        super().__init__(self.reason)
