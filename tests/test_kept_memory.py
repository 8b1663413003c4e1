"""Freed memory stays with a process that asks for it: what comes next costs no new pages."""

import subprocess
import sys

import pytest

ASKED = """
import resource, sys
import torch
from hpfl.kept_memory import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def filled():
    return torch.ones(64_000_000, dtype=torch.uint8)
for _ in range(12):  # small blocks settle between the large ones at first
    filled()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    filled()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", ASKED, how], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_was_freed_is_used_again_without_new_pages() -> None:
    pages = 10 * 64_000_000 // 4096
    assert faults("given back") > pages // 2
    assert faults("kept") < pages // 4
