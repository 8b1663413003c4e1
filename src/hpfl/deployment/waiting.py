"""How a parent waits: until something is so, looking whenever something has changed, and asking again meanwhile."""

import asyncio
from collections.abc import Callable

_LONGEST_WAIT_S = 0.05  # how often a wait looks again at who is attached, and who is worth it
_ASKED_AGAIN_AFTER = (0.125, 0.125, 0.25)  # shares of a wait; the rest is waited in silence


async def until(done: Callable[[], bool], changed: asyncio.Event, seconds: float) -> bool:
    """Wait until `done`, looking whenever something `changed`; False when the seconds are over first."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not done():
        left = end - loop.time()
        if left <= 0:
            return False
        changed.clear()
        try:
            async with asyncio.timeout(min(left, _LONGEST_WAIT_S)):
                await changed.wait()
        except TimeoutError:
            continue
    return True


async def asked_until(
    done: Callable[[], bool], changed: asyncio.Event, seconds: float, ask_again: Callable[[], None]
) -> bool:
    """Wait as `until` does, asking again at growing intervals: an answer, or the question, may have been lost."""
    for share in _ASKED_AGAIN_AFTER:
        if await until(done, changed, share * seconds):
            return True
        ask_again()
    return await until(done, changed, (1.0 - sum(_ASKED_AGAIN_AFTER)) * seconds)
