"""A peer with a valid certificate and bad manners: speaks the protocol by hand and sends what it likes."""

import asyncio

import grpc
import numpy as np

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.inbox import Inbox
from hpfl.deployment.security import channel_credentials, client_options, read_files
from hpfl.deployment.wire import METHOD, VERSION, Arrival, Tag, encode, numbers, vector_frames


class Mallory:
    """UE `number` of a test deployment, by hand."""

    def __init__(self, nodes, number, *, name=None, tls=None, fingerprint=None, server=None):
        self.nodes = nodes
        self.number = number
        self.name = name or f"ue-{number}"
        self.settings = nodes.ue_settings(number)
        self.tls = tls or self.settings.tls
        self.fingerprint = nodes.experiment.fingerprint if fingerprint is None else fingerprint
        self.server = server or self.settings.edge_name
        self.spec = nodes.experiment.spec
        self.refusals = []

    async def open(self, address=None):
        options = [
            (key, -1 if key == "grpc.max_send_message_length" else value)
            for key, value in client_options(self.settings.limits, server=self.server)
        ]
        self.channel = grpc.aio.secure_channel(
            address or self.settings.edge, channel_credentials(read_files(self.tls)), options=options
        )
        self.call = self.channel.stream_stream(METHOD)()
        self.inbox = Inbox(lambda tag, begin: self.spec)

    async def hello(self, *, num_samples=7, tag=None, **more):
        hello = pb.Hello(version=VERSION, fingerprint=self.fingerprint, num_samples=num_samples, **more)
        await self.call.write(encode(tag or Tag(node=self.name), hello=hello))

    async def next(self, kind, within_s=10.0):
        """The next message of a kind; vectors are of kind `vector`."""
        async with asyncio.timeout(within_s):
            while True:
                data = await self.call.read()
                if data is grpc.aio.EOF:
                    raise ConnectionError("the stream ended")
                came = self.inbox.feed(data)
                if came is None:
                    continue
                tag, content = came
                found = "vector" if isinstance(content, Arrival) else content.WhichOneof("body")
                if found == "refusal":
                    self.refusals.append(content.refusal.code)
                if found == kind:
                    return tag, content

    async def sketch(self, tag, *, num_samples=7, values=None):
        values = np.zeros(64) if values is None else values  # of the update of zeros
        message = pb.Sketch(values=numbers(values), weight=1.0, num_samples=num_samples)
        await self.call.write(encode(tag.by(self.name), sketch=message))

    async def ordered(self):
        """Behave well until the order comes; its tag."""
        await self.open()
        await self.hello()
        tag, _ = await self.next("vector")
        await self.sketch(tag)
        tag, _ = await self.next("order")
        return tag.by(self.name)

    def update(self, tag, vector, **head):
        return list(vector_frames(tag, vector, purpose=pb.UPDATE, **{"weight": 1.0, "num_samples": 7, **head}))

    async def send(self, *frames):
        for frame in frames:
            await self.call.write(frame)

    async def close(self):
        self.call.cancel()
        await self.channel.close()
