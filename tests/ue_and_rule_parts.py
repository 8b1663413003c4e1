"""Parts as another package would bring them: combine rules, a method with private heads, an uplink step, a metric."""

import numpy as np
import torch
from torch import nn

from hpfl import registry
from hpfl.attacks import Attack
from hpfl.learning.message import SideField
from hpfl.learning.method import BaseMethod, Local, descended, with_entries
from hpfl.learning.uplink import UplinkStep
from hpfl.options import Options, option
from hpfl.training.combine import Combined


class TrimmedOptions(Options):
    trim: float = option(0.25, "share that is cut off at each end", ge=0, lt=0.5)


@registry.part(options=TrimmedOptions)
def trimmed_mean(contributions, state, *, options):
    """Coordinate by coordinate the mean of all but the largest and the smallest values."""
    rows = torch.stack([one.update for one in contributions]).double()
    cut = int(len(rows) * options.trim)
    order = rows.argsort(dim=0, stable=True)[cut : len(rows) - cut]
    shares = np.bincount(order.flatten().numpy(), minlength=len(rows)) / order.numel()
    return Combined(rows.gather(0, order).mean(0), shares, state)


def momentum(contributions, state):
    """Half of the mean, and half of what the direction was before; it also counts its steps."""
    share = 0.5 / len(contributions)
    direction = sum(one.update.double() * share for one in contributions) + 0.5 * state.get("velocity", 0.0)
    steps = state.get("steps", 0) + 1
    return Combined(direction, np.full(len(contributions), share), {"velocity": direction, "steps": steps})


def narrow():
    """A model of few parameters, so that whole runs are short."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 4), nn.ReLU(), nn.Linear(4, 10))


class PrivateHead(BaseMethod):
    """A UE's last layer is its own and stays at home; it also counts how often the UE has computed."""

    def entries(self, spec):
        return spec.entries("3.")

    def numbers_kept(self, spec):
        return len(self.entries(spec)) + 1

    def first_kept(self, params, spec):
        return torch.cat([params[self.entries(spec).to(params.device)], params.new_zeros(1)])

    def travels(self, spec):
        mask = torch.ones(spec.num_parameters, dtype=torch.bool)
        mask[self.entries(spec)] = False
        return mask

    def local(self, steps, params, kept, training):
        own = self.entries(steps[0].spec)
        direction, end, losses = descended(steps, with_entries(params, own, kept[:-1]), training)
        return Local(direction, torch.cat([end[own], kept[-1:] + 1]), *losses)

    def personal(self, ue, params, kept, training):
        return with_entries(params, self.entries(ue.spec), kept[:-1])


class Coarse(UplinkStep):
    """Numbers as multiples of 1/64 in 16 bits; what is left over is kept for the next time."""

    def length(self, n):
        return 0

    def side(self, n):
        return (SideField("level", torch.int16, n, 16),)

    def numbers_kept(self, n):
        return n

    def encode(self, numbers, kept, draws):
        wanted = numbers + kept
        level = (wanted * 64).round().clamp(-32768, 32767)
        return numbers[:, :0], {"level": level}, wanted - level / 64

    def decode(self, numbers, side, n):
        return side["level"].to(numbers.dtype) / 64


@registry.part(worst="low")
def confidence(tests):
    """The mean probability of the answer that is given."""
    return tests.mean(tests.outputs.softmax(-1).amax(-1))


class Silent(Attack):
    """Hostile members send nothing but zeros."""

    def crafted(self, own, honest):
        return torch.zeros_like(own)
