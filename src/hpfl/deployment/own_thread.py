"""The thread in which a node computes: one piece of work at a time, and none that nobody waits for any more."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any


class OwnThread:
    """Work waits outside for its turn, where it is forgotten as soon as it is cancelled.

    A pool's own queue keeps what was cancelled, with the models it was given, until its turn comes.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._turn = asyncio.Semaphore(1)

    async def run(self, work: Callable[[], Any]) -> Any:
        """What `work` returns; who is cancelled leaves at once, and the next begins when the thread is through."""
        loop = asyncio.get_running_loop()
        await self._turn.acquire()

        def through(_: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it all who wait
                loop.call_soon_threadsafe(self._turn.release)

        try:
            running = self._pool.submit(work)
        except RuntimeError:
            self._turn.release()
            raise
        running.add_done_callback(through)
        return await asyncio.wrap_future(running)

    def end(self) -> None:
        """Nothing more is begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
