"""When a node does its part, and what it waits for until then; each is asked on its node's event loop."""

from hpfl.deployment.cloud import Cloud
from hpfl.deployment.edge import Edge
from hpfl.deployment.ue import Ue


def cloud_ready(cloud: Cloud, wanted: int) -> tuple[bool, str]:
    """Whether edges can come (without any, a cloud waits as it should), and how many of those `wanted` are there."""
    if not cloud.hub.is_listening:
        return False, "does not listen"
    return True, f"listening, {len(cloud.hub.children)} of {wanted} edges attached"


def edge_ready(edge: Edge) -> tuple[bool, str]:
    """Whether the cloud has it attached and a UE is there."""
    here = len(edge.ues.hub.children)
    waits = ([] if edge.up.link.is_welcome else ["its cloud"]) + ([] if here else ["its UEs"])
    return not waits, f"waits for {' and '.join(waits)}" if waits else f"attached, with {here} UEs"


def ue_ready(ue: Ue) -> tuple[bool, str]:
    """Whether its edge has it attached."""
    return (True, "attached") if ue.up.link.is_welcome else (False, "waits for its edge")
