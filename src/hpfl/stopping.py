"""How a run is asked to end: after its round, by whoever holds its `Stop`, by Ctrl-C or by SIGTERM."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType

KINDS = (signal.SIGINT, signal.SIGTERM)


def _nobody_waits() -> None:
    """A run that never waits looks for itself."""


@dataclass
class Stop:
    """Asks a run to end after its round; safe to call from a signal handler. `wake` ends the waiting of a cloud."""

    is_asked: bool = False
    wake: Callable[[], None] = _nobody_waits

    def ask(self) -> None:
        """End after the round, or at once where the run is only waiting."""
        self.is_asked = True
        self.wake()


@contextmanager
def on_signals(heard: Callable[[signal.Signals], None], kinds: Sequence[signal.Signals] = KINDS) -> Iterator[None]:
    """Have `heard` called for signals of these kinds; afterwards they mean what they meant before."""
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def handler(number: int, _frame: FrameType | None) -> None:
        heard(signal.Signals(number))

    for kind in kinds:
        signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, old in before.items():
            signal.signal(kind, old)


def _say_all(say: Callable[[str], None], wanted: "SimpleQueue[str | None]") -> None:
    while (text := wanted.get()) is not None:
        say(text)


@contextmanager
def _teller(say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Says from a thread of its own what a signal handler wants said, all of it before this ends.

    A handler interrupts its thread anywhere, also where it holds a lock of the display, while the display's own thread
    holds the other and waits: to print there may wait for ever.
    """
    wanted: SimpleQueue[str | None] = SimpleQueue()  # its `put` may be called within itself
    thread = threading.Thread(target=_say_all, args=(say, wanted), daemon=True)
    thread.start()
    try:
        yield wanted.put
    finally:
        wanted.put(None)
        thread.join()


@contextmanager
def stopping_after_round(
    say: Callable[[str], None], *, kinds: Sequence[signal.Signals] = KINDS, again: str = "Ctrl-C"
) -> Iterator[Stop]:
    """A stop that the first Ctrl-C or SIGTERM asks for; the second one, or what is called so, interrupts at once."""
    stop = Stop()

    def heard(_kind: signal.Signals) -> None:
        if stop.is_asked:
            raise KeyboardInterrupt
        stop.ask()
        tell(f"stopping after this round ({again} again to stop at once)")

    with _teller(say) as tell, on_signals(heard, kinds):
        yield stop
