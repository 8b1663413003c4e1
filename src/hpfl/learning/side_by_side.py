"""Computations in several threads, whose results come in order: what each does alone does not depend on how many."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_HELD_BYTES = 256_000_000  # of results that wait for their turn

Result = TypeVar("Result")


def in_turn(calls: Sequence[Callable[[], Result]], work: Sequence[float], result_bytes: int) -> Iterator[Result]:
    """Results of calls in order, computed by as many threads as torch may use; each call has one of torch's.

    Calls of much `work` begin first where the results of all fit; else they begin in order, a few ahead.
    """
    threads = min(torch.get_num_threads(), len(calls))
    if threads == 1:
        yield from (call() for call in calls)
        return
    with _one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        ahead = max(_HELD_BYTES // max(result_bytes, 1), 2 * threads)
        order = sorted(range(len(calls)), key=lambda place: -work[place]) if ahead >= len(calls) else range(len(calls))
        waiting = iter(order)
        running: dict[int, Future[Result]] = {}

        def begin(count: int) -> None:
            for _, place in zip(range(count), waiting, strict=False):
                running[place] = pool.submit(calls[place])

        begin(ahead)
        try:
            for place in range(len(calls)):
                yield running.pop(place).result()
                begin(1)
        finally:
            for future in running.values():
                future.cancel()


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
