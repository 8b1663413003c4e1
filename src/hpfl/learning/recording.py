"""Work of a GPU, recorded once and replayed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def recorded_graph(once: Callable[[], Tensor], pool: Any) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Run twice on a stream of its own, as libraries set themselves up, then record: the recording, and its answer."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        once()
        once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        found = once()
    return graph, found
