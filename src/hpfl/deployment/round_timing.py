"""A real round's seconds, planned and measured, by edge and by UE."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpfl.deployment.deliveries import Delivered
from hpfl.network.links import Links
from hpfl.planning.problem import Plan


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One round as planned and as measured, in seconds of the plan's clock, by edge and by UE; what a UE has sent."""

    round: int
    planned_s: float
    measured_s: float
    edge_planned_s: Mapping[int, float]
    edge_measured_s: Mapping[int, float]
    ue_planned_s: Mapping[int, float]
    ue_measured_s: Mapping[int, float]
    ue_bytes: int


def timing_of(
    round_number: int,
    links: Links,
    plan: Plan,
    came: Mapping[int, Delivered],
    *,
    measured_s: float,
    scale: float,
    ue_bytes: int,
) -> Timing:
    """The seconds of a round that took `measured_s`; real seconds are `scale` of the plan's."""
    ue_planned_s = dict(zip(links.members.tolist(), (links.compute_s + plan.upload_s).tolist(), strict=True))
    took = {ue: s / scale for one in came.values() for ue, s in zip(one.ues, one.ue_seconds, strict=True)}
    return Timing(
        round=round_number,
        planned_s=plan.round_latency_s,
        measured_s=measured_s,
        edge_planned_s={edge: float(plan.latency_s[edge]) for edge in came},
        edge_measured_s={edge: one.seconds / scale for edge, one in came.items()},
        ue_planned_s={ue: ue_planned_s[ue] for ue in took},
        ue_measured_s=took,
        ue_bytes=ue_bytes,
    )
