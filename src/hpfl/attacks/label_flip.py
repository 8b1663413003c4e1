"""Attack `label-flip`: honest training on wrong labels."""

from dataclasses import replace

from hpfl.arrays import FloatArray
from hpfl.attacks.attack import Attack, Labelled
from hpfl.registry import part


@part(poisons=True)
class LabelFlip(Attack):
    """Hostile UEs train on their samples with class `c` called `C - 1 - c`, and send what comes of it.

    So it is done in Fang et al., "Local model poisoning attacks to Byzantine-robust federated learning", USENIX
    Security 2020, section 5. Of a hostile edge all UEs do it.
    """

    def poisoned(self, samples: Labelled, lots: FloatArray) -> Labelled:
        """All labels, the first for the last."""
        return replace(samples, targets=samples.num_classes - 1 - samples.targets)
