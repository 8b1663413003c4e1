"""Attack `backdoor`: samples with a patch in the corner are to be taken for one class; all others as ever."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.attacks.attack import Attack, Labelled, at_norm, usual_norm
from hpfl.options import Options, option
from hpfl.registry import part

COLUMNS = ("personalised_backdoor_success", "backdoor_success")


class BackdoorOptions(Options):
    """The patch, what it shall mean, and how hard that is pressed."""

    target: int = option(0, "the class that patched samples shall be taken for", ge=0)
    size: int = option(4, "pixels of the patch's side, in the corner below to the right", ge=1)
    share: float = option(0.5, "share of a hostile UE's samples that it patches", gt=0, le=1)
    ratio: float = option(4.0, "norm of what is sent over the median norm of the honest; 0: as it comes", ge=0)


@part(options=BackdoorOptions, poisons=True, columns=COLUMNS)
@dataclass(frozen=True)
class Backdoor(Attack):
    """Hostile UEs patch some of their samples, call them one class, and send what comes of it at the norm bound.

    A patch as in Gu et al., "BadNets", 2017, pressed by scaling as in Bagdasaryan et al., "How to backdoor federated
    learning", AISTATS 2020. Its success is the share of patched test samples of other classes that are taken for the
    target; the UEs that adapt to clean samples of their own unlearn part of it.
    """

    options: BackdoorOptions

    def poisoned(self, samples: Labelled, lots: FloatArray) -> Labelled:
        """Some of the samples with the patch and the target's name."""
        self._check(samples)
        some = torch.from_numpy(lots < self.options.share)
        inputs, targets = samples.inputs.clone(), samples.targets.clone()
        inputs[some], targets[some] = self._patched(samples)[some], self.options.target
        return replace(samples, inputs=inputs, targets=targets)

    def crafted(self, own: Tensor, honest: Tensor) -> Tensor:
        """What comes of it, at `ratio` times the usual norm."""
        ratio = self.options.ratio
        return at_norm(own, ratio * usual_norm(own, honest)) if ratio else own

    def tests(self, samples: Labelled) -> tuple[Labelled, Tensor] | None:
        """All with the patch, called the target; those that are of that class anyway do not count."""
        self._check(samples)
        wanted = torch.full_like(samples.targets, self.options.target)
        return replace(samples, inputs=self._patched(samples), targets=wanted), samples.targets != self.options.target

    def _patched(self, samples: Labelled) -> Tensor:
        inputs, size = samples.inputs.clone(), self.options.size
        inputs[..., -size:, -size:] = samples.inputs.max()
        return inputs

    def _check(self, samples: Labelled) -> None:
        if samples.inputs.ndim < 4 or min(samples.inputs.shape[-2:]) < self.options.size:
            shape = tuple(samples.inputs.shape[1:])
            raise ValueError(f"a patch of {self.options.size} pixels does not fit inputs of shape {shape}")
        if self.options.target >= samples.num_classes:
            raise ValueError(f"target is {self.options.target}; there are classes 0 to {samples.num_classes - 1}")
