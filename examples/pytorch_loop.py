"""Federated learning in plain PyTorch, three tiers, with HPFL's planner for the radio and nothing else of it.

    python examples/pytorch_loop.py

The loop is yours: models, gradients, who keeps what. Each round it hands gains, bits, seconds and the importance of
pending updates to `hpfl.plan`, and is told which edges upload and with how many Hz. Edges that are not called keep
their update, and it grows staler; the plan sees to it that none grows older than `STALENESS_BOUND`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

import hpfl

EDGES, UES, CLASSES, FEATURES = 6, 24, 4, 16
OUTER_LR, ROUNDS, MOST_EDGES, STALENESS_BOUND = 0.5, 40, 2, 8
EDGE_OF_UE = np.arange(UES) % EDGES


@dataclass
class Edge:
    """What an edge holds: the mean gradient of its UEs, and the round of the model that it belongs to."""

    update: dict[str, Tensor]
    base_round: int

    @property
    def importance(self) -> float:
        """Squared norm of the update."""
        return float(sum((part**2).sum() for part in self.update.values()))


def samples(generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    """Every UE's own samples: two of the classes, each a cloud of points around its centre."""
    centres = 0.6 * torch.randn(CLASSES, FEATURES, generator=generator)
    shares = []
    for ue in range(UES):
        labels = torch.tensor([ue % CLASSES, (ue + 1) % CLASSES]).repeat(20)
        shares.append((centres[labels] + torch.randn(len(labels), FEATURES, generator=generator), labels))
    return shares


def edge_update(model: nn.Module, shares: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """The mean over an edge's UEs of their gradients."""
    params = {name: value.detach().requires_grad_() for name, value in model.named_parameters()}
    losses = [nn.functional.cross_entropy(functional_call(model, params, (x,)), y) for x, y in shares]
    gradients = torch.autograd.grad(torch.stack(losses).mean(), list(params.values()))
    return dict(zip(params, gradients, strict=True))


def posed(edges: list[Edge], bits: float, round_number: int, draws: np.random.Generator) -> hpfl.RoundProblem:
    """The round as the planner sees it: new fades, what is pending, and how old it is."""
    return hpfl.RoundProblem(
        bandwidth_hz=1e6,
        rho=0.5,
        phi=1.0,
        max_edges=MOST_EDGES,
        staleness_bound=STALENESS_BOUND,
        edge_gain=1e-9 * draws.exponential(size=EDGES),
        edge_power_w=np.full(EDGES, 0.01),
        edge_noise_w_per_hz=np.full(EDGES, 4e-21),
        edge_bits=np.full(EDGES, bits),
        importance=np.array([edge.importance for edge in edges]),
        staleness=np.array([round_number - edge.base_round for edge in edges]),
        edge_of_ue=EDGE_OF_UE,
        ue_gain=1e-7 * draws.exponential(size=UES),
        ue_power_w=np.full(UES, 0.01),
        ue_noise_w_per_hz=np.full(UES, 4e-21),
        ue_bits=np.full(UES, bits),
        compute_s=draws.uniform(0.001, 0.005, UES),
    )


def accuracy(model: nn.Module, shares: list[tuple[Tensor, Tensor]]) -> float:
    """Mean over UEs of the share of right answers."""
    with torch.no_grad():
        return float(np.mean([float((model(x).argmax(dim=1) == y).float().mean()) for x, y in shares]))


def main(rounds: int = ROUNDS, planner: str = "joint") -> dict[str, float]:
    """Train; simulated seconds, accuracy before and after, and the oldest update that was ever taken."""
    generator, draws = torch.Generator().manual_seed(0), np.random.default_rng(0)
    torch.manual_seed(0)
    shares = samples(generator)
    model = nn.Linear(FEATURES, CLASSES)
    bits = 32.0 * sum(value.numel() for value in model.parameters())
    of_edge = [[shares[ue] for ue in np.flatnonzero(edge == EDGE_OF_UE)] for edge in range(EDGES)]
    edges = [Edge(edge_update(model, own), 0) for own in of_edge]
    before, spent_s, oldest, memory = accuracy(model, shares), 0.0, 0, {}
    for number in range(rounds):
        problem = posed(edges, bits, number, draws)
        plan, memory = hpfl.plan(problem, planner, memory=memory, round=number, certify=False)
        called = np.flatnonzero(plan.scheduled)
        with torch.no_grad():
            for name, value in model.named_parameters():
                direction = torch.stack([edges[edge].update[name] for edge in called]).mean(dim=0)
                value.sub_(OUTER_LR * plan.step_scale * direction)
        spent_s, oldest = spent_s + plan.round_latency_s, max(oldest, int(problem.staleness[called].max()))
        for edge in called:  # they hear the new model and begin anew
            edges[edge] = Edge(edge_update(model, of_edge[edge]), number + 1)
    return {"seconds": spent_s, "before": before, "after": accuracy(model, shares), "oldest": oldest}


if __name__ == "__main__":
    for name in ("joint", "random", "shpfl"):
        told = main(planner=name)
        print(f"{name}: {told['after']:.1%} after {told['seconds']:.2f} s, oldest update {told['oldest']} rounds old")
