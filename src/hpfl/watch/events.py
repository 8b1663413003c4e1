"""News of the runs for pages that are open: new rounds and changed states, to each at its own pace."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from hpfl.watch.run_sources import Sources
from hpfl.watch.shown import as_json
from hpfl.watch.watched_run import Watched

HEARTBEAT_S = 10.0
LOOK_S = 0.1
MOST_LISTENERS = 32
_MOST_WAITING = 256
_MOST_ROWS = 200
_STATES_EVERY, _SEARCH_EVERY = 10, 50
"""Looks from one question after states to the next, and from one search for new runs to the next."""


@dataclass
class _Known:
    """What pages know of a run."""

    count: int
    state: str


class News:
    """Looks at the runs while somebody listens; a listener that does not keep up is let go and asks anew."""

    def __init__(self, sources: Sources, is_over: Callable[[], bool] = lambda: False) -> None:
        self._sources, self._is_over = sources, is_over
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._known: dict[str, _Known] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more can listen."""
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self) -> AsyncIterator[bytes]:
        """Events as they come, and a comment where there are none for a while."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._listeners.add(queue)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield b"retry: 1000\n: listening\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    event = b": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(queue)

    async def _keep_looking(self) -> None:
        self._known.clear()
        looks = 0
        while self._listeners:
            if self._is_over():
                for queue in tuple(self._listeners):
                    self._let_go(queue)
                return
            for event in await asyncio.to_thread(self.changes, looks):
                self._tell(event)
            looks += 1
            await asyncio.sleep(LOOK_S)

    def _tell(self, event: bytes) -> None:
        for queue in tuple(self._listeners):
            if queue.full():
                self._let_go(queue)
            else:
                queue.put_nowait(event)

    def _let_go(self, queue: "asyncio.Queue[bytes | None]") -> None:
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)

    def changes(self, looks: int = 0) -> list[bytes]:
        """What is new since the last look, as events."""
        found = []
        if looks % _SEARCH_EVERY == 0 and self._sources.look() and looks:
            found.append(event_of("runs", {"count": len(self._sources.runs)}))
        for run in tuple(self._sources.runs.values()):
            known = self._known.get(run.id)
            if known is None or known.state in {"running", "waiting"} or looks % _STATES_EVERY == 0:
                found += self._of_run(run, ask_state=looks % _STATES_EVERY == 0)
        return found

    def _of_run(self, run: Watched, *, ask_state: bool) -> list[bytes]:
        with run.lock:
            anew, count = run.refresh(), run.count
            known = self._known.get(run.id)
            state = run.state() if ask_state or known is None or count != known.count else known.state
            self._known[run.id] = _Known(count, state)
            if known is None:
                return []
            found = []
            if anew or count < known.count or count - known.count > _MOST_ROWS:
                found.append(event_of("reset", {"run": run.id, "count": count}))
            elif count > known.count:
                rows = run.rows(known.count + 1, count)
                found.append(event_of("round", {"run": run.id, "count": count, "rows": rows}))
            if state != known.state:
                found.append(event_of("state", {"run": run.id, "state": state}))
            return found


def event_of(name: str, told: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + as_json(told) + b"\n\n"
