"""How a child turns a model into a sketch of its update: once for each model, said again whenever it is asked for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from hpfl.deployment.parent_link import ParentLink
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag, Vector


@dataclass(frozen=True)
class Announced:
    """The sketch of the update that is held, and the model it was computed on."""

    tag: Tag
    sketch: Any


class Computing:
    """What one child holds, or is about to; what it holds can be sent again but never changed."""

    def __init__(self, link: ParentLink, sketched: Callable[[Tag, Vector], Awaitable[Any]]) -> None:
        self.held: Announced | None = None
        self._link = link
        self._sketched = sketched
        self._computes: Tag | None = None
        self._then: Callable[[], None] = _nothing

    def holds(self, tag: Tag) -> bool:
        """Whether there is an update on the model of a tag."""
        return self.held is not None and self.held.tag.about_same_model(tag)

    def is_new(self, tag: Tag) -> bool:
        """Whether the model of a tag is neither held nor under way."""
        return not self.holds(tag) and (self._computes is None or not self._computes.about_same_model(tag))

    def start(self, tag: Tag, vector: Vector) -> None:
        """Begin to compute on a new model, and forget what was computed on the one before."""
        self.held, self._computes, self._then = None, tag, _nothing
        self._link.background.start("compute", self._compute(tag, vector))

    def when_done(self, then: Callable[[], None]) -> None:
        """Do something as soon as what is under way is held; not at all, where another model comes first."""
        self._then = then

    def answer(self, tag: Tag) -> None:
        """Say again what is held on the model of a tag, or that it is not here; what is under way is said anyhow."""
        if self.held is not None and self.holds(tag):
            self._link.background.start("answer", self._link.say(self.held.tag, sketch=self.held.sketch))
        elif self.is_new(tag):
            self._link.background.start("answer", self._link.decline(tag, "stale", "that model is not here"))

    def wait_no_more(self) -> None:
        """What was to be done when the computation is over is of no use: the parent is gone, and asks again."""
        self._then = _nothing

    def forget(self) -> None:
        """What was held is of no use."""
        self.held = None

    async def _compute(self, tag: Tag, vector: Vector) -> None:
        try:
            sketch = await self._sketched(tag, vector)
        except RefusedError as error:
            await self._link.decline(tag, error.code, error.reason)
            return
        finally:
            if self._computes is tag:
                self._computes = None
        self.held = Announced(tag.by(self._link.name), sketch)
        then, self._then = self._then, _nothing
        await self._link.say(tag, sketch=sketch)
        then()


def _nothing() -> None:
    """What is done after a computation that nobody waits for."""
