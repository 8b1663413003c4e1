"""Each method as a user would write it: a loop over UEs, a module, autograd, and an SGD optimizer where one serves.

Used by benchmarks/methods.py. A method is given the global model and a UE's mini-batches, and answers with the model
that is averaged; what a UE keeps lies in `own`, its own dictionary.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Pairs = list[tuple[Tensor, Tensor]]


@dataclass
class Loop:
    """The global model, what UEs keep, and the options of a method."""

    model: nn.Module
    rate: float
    options: dict[str, Any] = field(default_factory=dict)
    own: dict[int, dict[str, Any]] = field(default_factory=dict)
    control: list[Tensor] = field(default_factory=list)

    def round(self, batches: Callable[[int], Pairs], num_ues: int, method: Callable[..., nn.Module]) -> None:
        """All UEs train one after the other; the cloud takes their mean."""
        mean = [torch.zeros_like(p) for p in self.model.parameters()]
        controls = [torch.zeros_like(p) for p in self.model.parameters()]
        for ue in range(num_ues):
            own = self.own.setdefault(ue, {})
            sent = method(self, copy.deepcopy(self.model), own, batches(ue))
            with torch.no_grad():
                for total, part in zip(mean, sent.parameters(), strict=True):
                    total.add_(part / num_ues)
                for total, part in zip(controls, own.get("told", ()), strict=False):
                    total.add_(part / num_ues)
        with torch.no_grad():
            for mine, new in zip(self.model.parameters(), mean, strict=True):
                mine.copy_(new)
            for mine, new in zip(self.control, controls, strict=False):
                mine.add_(new)

    def sgd(self, parameters: Iterator[nn.Parameter], **more: Any) -> torch.optim.SGD:
        """The optimizer of the method's options."""
        return torch.optim.SGD(parameters, lr=more.pop("lr", self.rate), **more)


def descend(
    model: nn.Module, optimizer: torch.optim.Optimizer, pairs: Pairs, near: Any = None, pull: float = 0
) -> None:
    """The usual training loop, with a proximal term where there is one."""
    for x, y in pairs:
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        if near is not None:
            loss = loss + pull / 2 * sum((p - q).square().sum() for p, q in zip(model.parameters(), near, strict=True))
        loss.backward()
        optimizer.step()


def values(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def fedavg(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    descend(model, loop.sgd(model.parameters()), pairs)
    return model


def fedprox(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    near = values(model)
    descend(model, loop.sgd(model.parameters()), pairs, near, 1.0)
    return model


def local(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    mine = own.setdefault("model", model)
    descend(mine, loop.sgd(mine.parameters()), pairs)
    return loop.model


def ditto(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    near, mine = values(model), own.setdefault("model", copy.deepcopy(model))
    descend(mine, loop.sgd(mine.parameters()), pairs, near, 1.0)
    descend(model, loop.sgd(model.parameters()), pairs)
    return model


def apfl(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    mine, share = own.setdefault("model", copy.deepcopy(model)), own.get("share", 0.5)
    mixed, optimizer = copy.deepcopy(model), loop.sgd(model.parameters())
    for number, (x, y) in enumerate(pairs):
        with torch.no_grad():
            for m, v, w in zip(mixed.parameters(), mine.parameters(), model.parameters(), strict=True):
                m.copy_(share * v + (1 - share) * w)
        slopes = torch.autograd.grad(cross_entropy(mixed(x), y), list(mixed.parameters()))
        used = share
        with torch.no_grad():
            if number == 0:
                gaps = zip(mine.parameters(), model.parameters(), slopes, strict=True)
                share = min(max(share - loop.rate * float(sum(((v - w) * g).sum() for v, w, g in gaps)), 0.0), 1.0)
            for v, g in zip(mine.parameters(), slopes, strict=True):
                v.sub_(loop.rate * used * g)
        descend(model, optimizer, [(x, y)])
    own["share"] = share
    return model


def pfedme(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    near, penalty = values(model), 15.0
    mine = copy.deepcopy(model)
    optimizer = loop.sgd(mine.parameters(), lr=0.01)
    for pair in pairs:
        descend(mine, optimizer, [pair] * 5, near, penalty)
        with torch.no_grad():
            near = [w - 0.005 * penalty * (w - p) for w, p in zip(near, mine.parameters(), strict=True)]
    own["model"] = mine
    with torch.no_grad():
        for p, w in zip(model.parameters(), near, strict=True):
            p.copy_(w)
    return model


def with_head(model: nn.Module, own: dict[str, Any]) -> nn.Module:
    if "head" in own:
        model[-1].load_state_dict(own["head"])
    return model


def keep_head(model: nn.Module, own: dict[str, Any]) -> nn.Module:
    own["head"] = copy.deepcopy(model[-1].state_dict())
    return model


def fedper(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    descend(with_head(model, own), loop.sgd(model.parameters()), pairs)
    return keep_head(model, own)


def moving(model: nn.Module, head: bool, body: bool) -> list[nn.Parameter]:
    """The parameters that move; the others want no gradient."""
    last = {id(p) for p in model[-1].parameters()}
    for p in model.parameters():
        p.requires_grad_(head if id(p) in last else body)
    return [p for p in model.parameters() if p.requires_grad]


def fedrep(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    with_head(model, own)
    descend(model, loop.sgd(moving(model, head=True, body=False), momentum=0.5), pairs * 10)
    descend(model, loop.sgd(moving(model, head=False, body=True), momentum=0.5), pairs)
    moving(model, head=True, body=True)
    return keep_head(model, own)


def fedbabu(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    descend(model, loop.sgd(moving(model, head=False, body=True), momentum=0.9), pairs)
    moving(model, head=True, body=True)
    return model


def fedala(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    head, shared = list(model[-1].parameters()), [p.detach().clone() for p in model[-1].parameters()]
    mine = own.get("model")
    weights = own.setdefault("weights", [torch.ones_like(p) for p in shared])
    if mine is not None:
        passes = 1 if own.get("learnt") else 10
        before = [p.detach().clone() for p in mine[-1].parameters()]
        own["learnt"] = True
        moving(model, head=True, body=False)
        for x, y in pairs * passes:
            with torch.no_grad():
                for p, q, w, g in zip(head, before, weights, shared, strict=True):
                    p.copy_(q + (g - q) * w)
            slopes = torch.autograd.grad(cross_entropy(model(x), y), head)
            for w, slope, q, g in zip(weights, slopes, before, shared, strict=True):
                w.sub_(slope * (g - q)).clamp_(0, 1)
        with torch.no_grad():
            for p, q, w, g in zip(head, before, weights, shared, strict=True):
                p.copy_(q + (g - q) * w)
        moving(model, head=True, body=True)
    descend(model, loop.sgd(model.parameters()), pairs)
    own["model"] = model
    return model


def per_fedavg(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    """Exact: the Hessian by a second backward pass."""
    inner, weights = 0.03, list(model.parameters())
    for x, y in pairs:
        before = values(model)
        gradient = torch.autograd.grad(cross_entropy(model(x), y), weights, create_graph=True)
        with torch.no_grad():
            for p, g in zip(weights, gradient, strict=True):
                p.data = p.data - inner * g
        outer = torch.autograd.grad(cross_entropy(model(x), y), weights)
        for p, q in zip(weights, before, strict=True):
            p.data = q
        product = torch.autograd.grad(gradient, weights, outer)
        with torch.no_grad():
            for p, v, h in zip(weights, outer, product, strict=True):
                p.sub_(loop.rate * (v - inner * h))
    return model


def scaffold(loop: Loop, model: nn.Module, own: dict[str, Any], pairs: Pairs) -> nn.Module:
    if not loop.control:
        loop.control = [torch.zeros_like(p) for p in model.parameters()]
    start, mine = values(model), own.setdefault("control", [torch.zeros_like(p) for p in model.parameters()])
    optimizer = loop.sgd(model.parameters())
    for x, y in pairs:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        for p, c, ci in zip(model.parameters(), loop.control, mine, strict=True):
            p.grad += c - ci
        optimizer.step()
    with torch.no_grad():
        ends = zip(mine, loop.control, start, model.parameters(), strict=True)
        new = [ci - c + (x - p) / (len(pairs) * loop.rate) for ci, c, x, p in ends]
        own["told"] = [n - ci for n, ci in zip(new, mine, strict=True)]
    own["control"] = new
    return model


METHODS: dict[str, Callable[..., nn.Module]] = {
    "local": local,
    "fedavg": fedavg,
    "fedavg-ft": fedavg,  # fine-tuned at evaluation alone
    "fedprox": fedprox,
    "per-fedavg": per_fedavg,
    "pfedme": pfedme,
    "ditto": ditto,
    "apfl": apfl,
    "fedper": fedper,
    "fedrep": fedrep,
    "fedbabu": fedbabu,
    "fedala": fedala,
    "scaffold": scaffold,
}
