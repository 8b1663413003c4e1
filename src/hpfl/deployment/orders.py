"""What a cloud orders of an edge: a plan's seconds in real ones, and deadlines that allow for a real network."""

from typing import Any

import numpy as np

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.books import Books
from hpfl.deployment.deliveries import Held
from hpfl.deployment.settings import CloudNodeSettings, TimingSettings
from hpfl.deployment.wire import Tag
from hpfl.network.links import Links
from hpfl.planning.problem import Plan

_STEPS_UP = 2
"""From UEs to their edge, and from the edge to the cloud."""


def order_of(
    settings: CloudNodeSettings, round_number: int, held: Held, links: Links, plan: Plan, books: Books
) -> tuple[Tag, Any]:
    """The order to the edge that holds an update, and the tag it goes out under."""
    scale = settings.time_scale
    mine = np.isin(links.members, held.sketch.ues)
    edge = int(links.edge_of_ue[mine][0])
    tag = Tag(run=held.tag.run, round=round_number, base_round=held.tag.base_round, base=held.tag.base)
    order = pb.Order(
        upload_s=float(plan.edge_upload_s[edge]) * scale,
        deadline_s=deadline_s(settings, float(plan.latency_s[edge]), steps=_STEPS_UP),
        phase_deadline_s=deadline_s(settings, float(plan.edge_phase_s[edge]), steps=1),
        switch_s=0.0 if plan.switch_s is None else float(plan.switch_s[edge]) * scale,
        paced=settings.paced,
        ue=links.members[mine].tolist(),
        ue_compute_s=(links.compute_s[mine] * scale).tolist(),
        ue_upload_s=(plan.upload_s[mine] * scale).tolist(),
        coding=plan.coding,
        counted=int(books.edge_counted[edge]),
        ue_counted=books.ue_counted[links.members[mine]].tolist(),
    )
    return tag, order


def deadline_s(settings: CloudNodeSettings, planned_s: float, *, steps: int) -> float:
    """Real seconds that are waited for what was planned to take so long, with slack for so many steps."""
    timing = settings.timing
    return planned_s * settings.time_scale * timing.deadline_factor + steps * timing.deadline_slack_s


def planned_s_of(timing: TimingSettings, order: Any) -> float:
    """Real seconds that an edge was ordered to take, by its deadline; 0 where it is to be as quick as it can."""
    return (order.deadline_s - _STEPS_UP * timing.deadline_slack_s) / timing.deadline_factor if order.paced else 0.0
