"""What edges and UEs share: their file, the experiment, background work that is never lost, and a clean end."""

import asyncio
import logging
import math
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Any

import torch

from hpfl.assembly import edge_settings, foretold_chains, metrics_of, sending_of
from hpfl.config import Experiment
from hpfl.dealing import most_dealt
from hpfl.deployment.checks import Bounds
from hpfl.deployment.greeting import Shapes
from hpfl.deployment.logs import LOGGER, log
from hpfl.deployment.node_parts import make_node_task, newcomers_among, node_shape, sketch_width, vector_spec
from hpfl.deployment.secure_format import SecureFormat
from hpfl.deployment.settings import NodeSettings
from hpfl.deployment.sketch_check import SketchCheck, coding_errors
from hpfl.deployment.update_format import UpdateFormat
from hpfl.learning import LOSSES, columns_of
from hpfl.learning.metrics import ranges_of
from hpfl.private_runs import cell_privacy, check_whole_numbers
from hpfl.rng import Streams
from hpfl.training.counted import Counted
from hpfl.training.sketch import make_projection


class Background:
    """Tasks of a node; a newer one of the same kind replaces the older."""

    def __init__(self) -> None:
        self._by_kind: dict[str, asyncio.Task[None]] = {}

    def start(self, kind: str, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` beside everything else, instead of what else of its kind is still being done."""
        self.cancel(kind)
        task = asyncio.get_running_loop().create_task(_logged(kind, work))
        task.add_done_callback(lambda _: work.close())  # work that was cancelled before its first step
        self._by_kind[kind] = task

    def cancel(self, kind: str) -> None:
        """Stop the work of one kind."""
        task = self._by_kind.pop(kind, None)
        if task is not None:
            task.cancel()

    def is_busy(self, kind: str) -> bool:
        """Whether work of one kind is being done."""
        task = self._by_kind.get(kind)
        return task is not None and not task.done()

    async def finish(self, kind: str, within_s: float) -> None:
        """Wait for the work of one kind, where there is some, but not longer than this."""
        task = self._by_kind.get(kind)
        if task is not None:
            await asyncio.wait({task}, timeout=within_s)

    async def stop(self) -> None:
        """Stop all work and wait until it has stopped."""
        tasks = list(self._by_kind.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _logged(kind: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except ConnectionError as error:
        log(f"{kind} interrupted", reason=str(error))
    except Exception:  # noqa: BLE001  a task nobody awaits must say why it died; the node goes on
        LOGGER.exception("%s failed", kind)


class SharedWork:
    """What the experiment asks of every node alike: the model, its form on the wire, the bounds of updates."""

    def __init__(self, settings: NodeSettings) -> None:
        self.config = settings.config()
        self.fingerprint = self.config.fingerprint
        self.task = make_node_task(settings, self.config)
        self.shapes = Shapes.of(self.config, self.task, *node_shape(settings, self.config))
        self.spec = vector_spec(self.task, self.config)
        self.sending = sending_of(self.config, self.task, torch.device("cpu"))
        self.foretold = foretold_chains(self.config, self.sending)
        network, self.newcomers = self.config.network, newcomers_among(self.config)
        counted = Counted.by(self.sending, network.num_ues - len(self.newcomers))
        self.updates = UpdateFormat(self.spec, self.sending, network.backhaul, counted)
        limits = settings.limits
        self.bounds = Bounds(
            update_norm=limits.update_norm,
            num_samples=limits.num_samples or most_dealt(self.config),
            norm_ratio=limits.norm_ratio,
            sample_ratio=limits.sample_ratio,
            share=limits.share,
        )
        self.sketch_width = sketch_width(self.config)
        self.metrics = metrics_of(self.config)
        self.columns = columns_of(self.metrics)
        self.ranges = ranges_of(self.metrics, _least_loss(self.config))
        self.edge_settings = edge_settings(self.config, memory_gb=self.config.learning.memory_gb)
        self.private = cell_privacy(self.config, self.sending)

    @cached_property
    def sketches(self) -> SketchCheck:
        """How a parent checks updates against the sketches that announced them."""
        streams, backhaul = Streams(self.config.training.seed), self.config.network.backhaul
        projection = make_projection(self.spec.length, streams, width=self.sketch_width)
        return SketchCheck.of(projection, coding_errors(self.sending, streams, backhaul=backhaul))

    @cached_property
    def secure(self) -> SecureFormat | None:
        """How sketches and updates of UEs look under masks; None where they are sent one by one."""
        made = SecureFormat.of(self) if self.config.secure.on else None
        check_whole_numbers(self.private, None if made is None else made.update)
        return made

    def weight(self, num_samples: int) -> float:
        """A member's weight in a mean: all alike, or by samples."""
        return 1.0 if self.edge_settings.weighting == "uniform" else float(num_samples)


def _least_loss(config: Experiment) -> float:
    """The least value of the loss that is trained with, where it says so."""
    name = config.learning.loss
    return float(LOSSES.traits_of(name)["least"]) if isinstance(name, str) and name in LOSSES else -math.inf


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and Ctrl-C ask for a clean end."""
    loop = asyncio.get_running_loop()
    for kind in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(kind, stop.set)


async def until_stopped(
    work: Coroutine[Any, Any, None], stop: asyncio.Event, settle: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Do `work` until it ends, or a stop is asked for and what was begun has `settle`d; its error is raised."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    log("stopping", level=logging.INFO)
    if settle is not None and not working.done():
        await settle()
    for task in (working, stopping):
        if not task.done():
            task.cancel()
    results = await asyncio.gather(working, stopping, return_exceptions=True)
    if isinstance(results[0], asyncio.CancelledError) and not stop.is_set():
        raise RuntimeError("this node's work was cancelled, and nobody had asked for it")
    if isinstance(results[0], Exception):
        raise results[0]
