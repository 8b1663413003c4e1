"""The reading side of a stream: frames in, whole vectors and messages out, spoiled vectors dropped."""

from collections.abc import Callable
from typing import Any

from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Content, Tag, VectorSpec, decode_whole

Expects = Callable[[Tag, Any], VectorSpec]
"""What a vector with this tag and head must look like; refuses what nobody waits for, before memory is set aside."""


class Inbox:
    """Puts vectors together; at most one is on its way in, so memory is that of one vector."""

    def __init__(self, expects: Expects) -> None:
        self._expects = expects
        self._arrival: Arrival | None = None
        self._spoiled: Tag | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a vector is half here."""
        return self._arrival is not None

    def feed(self, data: bytes) -> tuple[Tag, Any] | None:
        """What `data` completes: (tag, Arrival) for a vector, (tag, frame) for a message, None for neither."""
        tag, frame, content = decode_whole(data)
        match frame.WhichOneof("body"):
            case "begin":
                return self._begun(tag, frame.begin, content)
            case "chunk":
                return self._continued(tag, frame.chunk, content)
            case _:
                return tag, frame

    def _begun(self, tag: Tag, begin: Any, content: Content) -> tuple[Tag, Any] | None:
        self._arrival, self._spoiled = None, tag  # until proven sound
        self._arrival = Arrival(tag, begin, self._expects(tag, begin), content)
        self._spoiled = None
        return self._completed(tag)

    def _continued(self, tag: Tag, chunk: Any, content: Content) -> tuple[Tag, Any] | None:
        arrival = self._arrival
        if arrival is None:
            if tag == self._spoiled:
                return None  # the rest of a vector that has been refused, or a second copy of one that is here
            self._spoiled = tag  # its other chunks need not be refused one by one
            raise RefusedError("order", f"a chunk of round {tag.round} came without a head")
        try:
            arrival.add(tag, chunk, content)
        except RefusedError:
            self._arrival, self._spoiled = None, arrival.tag
            raise
        return self._completed(tag)

    def _completed(self, tag: Tag) -> tuple[Tag, Any] | None:
        arrival = self._arrival
        if arrival is None or not arrival.is_complete:
            return None
        self._arrival, self._spoiled = None, tag
        return tag, arrival
