"""How a UE that does not train fetches the global model: as a visitor of its edge."""

from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.attaching import stay_attached
from hpfl.deployment.child import noted
from hpfl.deployment.named_model import sound
from hpfl.deployment.node import SharedWork
from hpfl.deployment.parent_proof import ParentProof
from hpfl.deployment.settings import UeNodeSettings
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import Arrival, Tag, Vector, encode


async def global_model(settings: UeNodeSettings, experiment: SharedWork, *, num_samples: int) -> Vector:
    """The global model, asked for until it comes."""
    found: list[Vector] = []
    hello = experiment.shapes.hello(number=settings.number, num_samples=num_samples, visitor=True)
    proof = ParentProof(settings.tls, child=settings.name, parent=settings.edge_name)

    async def session(stream: TierStream) -> bool:
        def handle(tag: Tag, content: Any) -> None:
            if not isinstance(content, Arrival):
                if content.WhichOneof("body") == "welcome":
                    proof.check(content.welcome.certificate, content.welcome.signature)
            elif content.begin.purpose == pb.GLOBAL and not proof.is_owed:
                found.append(sound(content))
                stream.end()

        hello.challenge = proof.challenge()
        await stream.send(encode(Tag(node=settings.name), hello=hello))
        await stream.listen(lambda tag, begin: experiment.spec, handle, noted)
        return bool(found)

    await stay_attached(settings, settings.edge, settings.edge_name, session)
    return found[0]
