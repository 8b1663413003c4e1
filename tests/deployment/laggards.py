"""Children that hold others up: each plays UE `number` of a test deployment by hand, honestly but for one thing."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import numpy as np
from mallory import Mallory

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.inbox import Inbox
from hpfl.deployment.wire import Arrival, encode, numbers

FIGURES = np.array([1.0, 0.5, 0.75, 0.25, 0.6, 1.1])


class Laggard(Mallory):
    """Answers everything at once, but for what `how` says: mute, withholds, trickles, or takes `delay_s` each time.

    One that flaps leaves instead of its sketch, one that flees instead of its update; both are back at once. One that
    sends junk sends sketches of a model that nobody asked about, one that declines announces updates and sends none.
    """

    def __init__(self, nodes, number, how, *, delay_s=0.0):
        super().__init__(nodes, number)
        self.how, self.delay_s, self.asked = how, delay_s, []
        self.task = None

    def start(self):
        self.task = asyncio.run_coroutine_threadsafe(self._live(), self.nodes.loop.loop)
        return self

    def stop(self):
        self.task.cancel()

    async def _live(self):
        while True:
            with suppress(ConnectionError):
                await self._one_life()
            await self.close()

    async def _one_life(self):
        await self.open()
        self.inbox = Inbox(lambda tag, begin: self.spec)
        await self.hello()
        while True:
            came = self.inbox.feed(await self.call.read())
            if came is not None:
                await self._answer(*came)

    async def _answer(self, tag, content):
        kind = "vector" if isinstance(content, Arrival) else content.WhichOneof("body")
        purpose = content.begin.purpose if kind == "vector" else None
        self.asked.append(kind)
        if self.how == "mute" or kind not in {"vector", "order"}:
            return
        if self.how == "junk" and purpose == pb.TRAIN:
            for _ in range(8):  # none of them is an answer
                await self.sketch(replace(tag, base=bytes(len(tag.base))))
            return
        await asyncio.sleep(self.delay_s)
        if {"flaps": purpose == pb.TRAIN, "flees": kind == "order"}.get(self.how):
            raise ConnectionError
        if purpose == pb.TRAIN:
            await self.sketch(tag)
        elif purpose == pb.EVALUATE and self.how != "blind":
            figures = pb.Figures(ue=[self.number], values=numbers(FIGURES))
            await self.call.write(encode(tag.by(self.name), figures=figures))
        elif kind == "order" and self.how == "declines":
            await self.decline(tag, "empty")
        elif kind == "order" and self.how != "withholds":
            await self._upload(tag)

    async def decline(self, tag, code):
        refusal = pb.Refusal(code=code, reason="not today")
        await self.call.write(encode(tag.by(self.name), refusal=refusal))

    async def _upload(self, tag):
        update = np.zeros(self.spec.length, dtype=self.spec.dtype)
        head, *rest = self.update(tag.by(self.name), update, chunk_bytes=update.nbytes // 2)
        await self.send(head)
        if self.how != "trickles":
            await self.send(*rest)


class FalseEdge(Laggard):
    """Edge `number`, whose UEs come and go all the time, as it says; none ever computes."""

    def __init__(self, nodes, number, *, delay_s=0.05):
        super().__init__(nodes, number, "renews", delay_s=delay_s)
        self.name, self.tls, self.server = f"edge-{number}", nodes.certificates.tls(f"edge-{number}"), "cloud"
        self.saying = None

    async def open(self):
        await super().open(f"127.0.0.1:{self.nodes.cloud_port}")

    async def hello(self):
        await super().hello(num_samples=0)

    async def _answer(self, tag, content):
        if isinstance(content, Arrival) and content.begin.purpose == pb.TRAIN:
            self.asked.append("vector")
            if self.saying is not None:
                self.saying.cancel()
            self.saying = asyncio.ensure_future(self._renew(tag))

    async def _renew(self, tag):
        with suppress(asyncio.InvalidStateError):  # until the cloud has closed the stream
            while True:
                await self.decline(tag, "empty")
                await self.decline(tag, "late")
                await asyncio.sleep(self.delay_s)


def with_laggard(nodes, how, **options):
    """Start everybody, with a laggard in the place of the last UE; for `dead`, with no UE at the last edge.

    For `renews`, the last edge is the laggard, and has no UEs.
    """
    nodes.start_cloud()
    edges, each, count = nodes.config.network.edges, nodes.config.network.ues_of_edges[0], nodes.config.network.num_ues
    for edge in range(edges - (how == "renews")):
        nodes.start_edge(edge)
    honest = {"dead": count - each, "renews": count - each, "honest": count}.get(how, count - 1)
    for ue in range(honest):
        nodes.start_ue(ue)
    if how == "renews":
        return FalseEdge(nodes, edges - 1, **options).start()
    return Laggard(nodes, count - 1, how, **options).start() if honest == count - 1 else None
