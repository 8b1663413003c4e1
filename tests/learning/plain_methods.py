"""Each method as its paper prints it, one UE after the other, with a module and `torch.autograd`: nothing is shared.

A UE is told of the model `w` [P] and of its mini-batches, has a dictionary of its own, and answers with what the cloud
averages. `HEAD` is the last layer's part of the vector.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Pair = tuple[Tensor, Tensor]
RATE = 0.2


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


SIZE, HEAD = 5 * 4 + 4 + 4 * 3 + 3, slice(24, 39)


def at(vector: Tensor, pair: Pair) -> tuple[float, Tensor]:
    """Loss and gradient of a network with these parameters."""
    net = _kept_network(vector.dtype)
    vector_to_parameters(vector, net.parameters())
    loss = cross_entropy(net(pair[0]), pair[1])
    return float(loss.detach()), parameters_to_vector(torch.autograd.grad(loss, list(net.parameters()))).detach()


@cache
def _kept_network(dtype: torch.dtype) -> nn.Module:
    return network().to(dtype)


def gradient(vector: Tensor, pair: Pair) -> Tensor:
    return at(vector, pair)[1]


@dataclass
class Plain:
    """A method by its options, as a loop would have it."""

    options: dict[str, Any]
    server: dict[str, Any] = field(default_factory=dict)

    def first(self, w: Tensor) -> dict[str, Any]:
        return {}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        raise NotImplementedError

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return w - 0.1 * gradient(w, everything)  # the house's rule for shared models: one inner step of 0.1

    def averaged(self, w: Tensor, sent: Tensor, heard: int, everybody: int) -> Tensor:
        return sent

    def sgd(self, start: Tensor, batches: Sequence[Pair], rate: float = RATE, only: slice | None = None) -> Tensor:
        """torch's own optimiser, so that momentum and decay are what everybody means by them."""
        p = nn.Parameter(start.clone())
        momentum, decay = (self.options.get(name, 0.0) for name in ("momentum", "weight_decay"))
        optimiser = torch.optim.SGD([p], lr=rate, momentum=momentum)
        for pair in batches:
            slope = gradient(p.detach(), pair) + decay * p.detach() + self.more(p.detach(), pair)
            if only is not None:
                kept = torch.zeros_like(slope)
                kept[only] = slope[only]
                slope = kept
            p.grad = slope
            optimiser.step()
        return p.detach().clone()

    def more(self, point: Tensor, pair: Pair) -> Tensor:
        return torch.zeros_like(point)


class FedAvg(Plain):
    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        return self.sgd(w, batches)


class Local(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"v": w}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        own["v"] = self.sgd(own["v"], batches)
        return w

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return own["v"]


class FedAvgFt(FedAvg):
    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return self.sgd(w, [everything] * self.options["finetune_steps"], self.options["finetune_lr"])


class FedProx(Plain):
    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        self.server["w"] = w
        return self.sgd(w, batches)

    def more(self, point: Tensor, pair: Pair) -> Tensor:
        return self.options["mu"] * (point - self.server["w"])


class PFedMe(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"theta": w}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        o, local, theta = self.options, w.clone(), w.clone()
        for pair in batches:
            for _ in range(o["inner_steps"]):
                theta = theta - o["personal_lr"] * (gradient(theta, pair) + o["penalty"] * (theta - local))
            local = local - o["local_lr"] * o["penalty"] * (local - theta)
        own["theta"] = theta
        return local

    def averaged(self, w: Tensor, sent: Tensor, heard: int, everybody: int) -> Tensor:
        beta = self.options["server_mix"]
        return (1 - beta) * w + beta * sent

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return own["theta"]


class Ditto(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"v": w}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        local, v, o = w.clone(), own["v"], self.options
        for pair in batches:
            local = local - RATE * gradient(local, pair)
            v = v - o["personal_lr"] * (gradient(v, pair) + o["penalty"] * (v - w))
        own["v"] = v
        return local

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return own["v"]


class Apfl(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"v": w, "w": w, "alpha": self.options["alpha"]}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        v, local, alpha = own["v"], w.clone(), own["alpha"]
        for number, pair in enumerate(batches):
            slope = gradient(alpha * v + (1 - alpha) * local, pair)
            new_alpha = alpha
            if number == 0 and self.options["adaptive"]:
                new_alpha = min(max(alpha - RATE * float((v - local) @ slope), 0.0), 1.0)
            v, local = v - RATE * alpha * slope, local - RATE * gradient(local, pair)
            alpha = new_alpha
        own.update(v=v, w=local, alpha=alpha)
        return local

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        return own["alpha"] * own["v"] + (1 - own["alpha"]) * own["w"]


class FedPer(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"head": w[HEAD]}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        end = self.sgd(self.model(w, own, batches[0]), batches)
        own["head"] = end[HEAD]
        return end

    def averaged(self, w: Tensor, sent: Tensor, heard: int, everybody: int) -> Tensor:
        body = sent.clone()
        body[HEAD] = w[HEAD]
        return body

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        both = w.clone()
        both[HEAD] = own["head"]
        return both


class FedRep(FedPer):
    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        passes = list(batches) * self.options["head_passes"]
        fitted = self.sgd(self.model(w, own, batches[0]), passes, only=HEAD)
        own["head"] = fitted[HEAD]
        return self.sgd(fitted, batches, only=slice(0, HEAD.start))


class FedBabu(FedAvgFt):
    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        return self.sgd(w, batches, only=slice(0, HEAD.start))


class FedAla(Plain):
    def first(self, w: Tensor) -> dict[str, Any]:
        return {"p": w, "W": torch.ones_like(w[HEAD]), "learnt": False}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        far = w[HEAD] - own["p"][HEAD]
        if bool(far.any()):  # nothing can be learnt before the models differ
            for _ in range(1 if own["learnt"] else self.options["first_passes"]):
                for pair in batches:
                    slope = gradient(self.model(w, own, pair), pair)[HEAD] * far
                    own["W"] = (own["W"] - self.options["weight_lr"] * slope).clamp(0, 1)
            own["learnt"] = True
        own["p"] = self.sgd(self.model(w, own, batches[0]), batches)
        return own["p"]

    def model(self, w: Tensor, own: dict[str, Any], everything: Pair) -> Tensor:
        start = w.clone()
        start[HEAD] = own["p"][HEAD] + (w[HEAD] - own["p"][HEAD]) * own["W"]
        return start


class Scaffold(Plain):
    """The cloud's control variate is beside the model in what is sent: [y, c_i+ - c_i]."""

    def first(self, w: Tensor) -> dict[str, Any]:
        return {"c": torch.zeros_like(w)}

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        c, y = self.server.setdefault("c", torch.zeros_like(w)), w.clone()
        for pair in batches:
            y = y - RATE * (gradient(y, pair) - own["c"] + c)
        if self.options["control"] == "difference":
            new = own["c"] - c + (w - y) / (len(batches) * RATE)
        else:
            new = torch.stack([gradient(w, pair) for pair in batches]).mean(0)
        change, own["c"] = new - own["c"], new
        return torch.cat([y, change])

    def averaged(self, w: Tensor, sent: Tensor, heard: int, everybody: int) -> Tensor:
        self.server["c"] = self.server["c"] + heard / everybody * sent[SIZE:]
        return sent[:SIZE]


class PerFedAvg(Plain):
    """The Hessian by finite differences of no gradient: of autograd's own double backward."""

    def train(self, w: Tensor, own: dict[str, Any], batches: Sequence[Pair]) -> Tensor:
        local = w.clone()
        for pair in batches:
            net = copy.deepcopy(network()).to(w.dtype)
            point = local.clone().requires_grad_()
            names = [name for name, _ in net.named_parameters()]

            def loss(vector: Tensor, pair: Pair = pair, net: nn.Module = net, names: list[str] = names) -> Tensor:
                parts, begin = {}, 0
                for name, parameter in zip(names, net.parameters(), strict=True):
                    parts[name] = vector[begin : begin + parameter.numel()].view_as(parameter)
                    begin += parameter.numel()
                return cross_entropy(torch.func.functional_call(net, parts, (pair[0],)), pair[1])

            (slope,) = torch.autograd.grad(loss(point), point, create_graph=True)
            (meta,) = torch.autograd.grad(loss(point - 0.1 * slope), point)
            local = local - RATE * meta
        return local


PLAIN: dict[str, Callable[[dict[str, Any]], Plain]] = {
    "fedavg": FedAvg,
    "per-fedavg": PerFedAvg,
    "local": Local,
    "fedavg-ft": FedAvgFt,
    "fedprox": FedProx,
    "pfedme": PFedMe,
    "ditto": Ditto,
    "apfl": Apfl,
    "fedper": FedPer,
    "fedrep": FedRep,
    "fedbabu": FedBabu,
    "fedala": FedAla,
    "scaffold": Scaffold,
}

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "local": [{"momentum": 0.5, "weight_decay": 0.01}],
    "fedavg-ft": [{"finetune_steps": 3, "finetune_lr": 0.15, "momentum": 0.3}],
    "fedprox": [{"mu": 0.7, "momentum": 0.4, "weight_decay": 0.02}],
    "pfedme": [{"penalty": 2.0, "inner_steps": 3, "personal_lr": 0.1, "local_lr": 0.05, "server_mix": 0.8}],
    "ditto": [{"penalty": 0.6, "personal_lr": 0.15}],
    "apfl": [{"alpha": 0.4, "adaptive": True}, {"alpha": 0.3, "adaptive": False}],
    "fedper": [{"momentum": 0.5, "weight_decay": 0.01}],
    "fedrep": [{"momentum": 0.5, "head_passes": 3, "weight_decay": 0.0}],
    "fedbabu": [{"momentum": 0.9, "finetune_steps": 3, "finetune_lr": 0.1}],
    "fedala": [{"weight_lr": 5.0, "first_passes": 4, "momentum": 0.2}],
    "scaffold": [{"control": "difference"}, {"control": "gradient"}],
}
