"""For all tests: one thread a process, as studies' workers have, so that what is compared was summed in one order."""

import os
import signal

import pytest

os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_not_ignored():
    """As at a terminal, for all tests and processes they start: a shell's background jobs ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
