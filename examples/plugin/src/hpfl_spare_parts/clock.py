"""Clock `slotted`: the paper's clock on a network that begins a round only with a slot."""

import math
from dataclasses import replace

from hpfl import part
from hpfl.options import Options, option
from hpfl.simulation import ClockMemory, ClockSettings, Progress, RoundClock, Span


class SlotOptions(Options):
    """Options of clock `slotted`."""

    slot_s: float = option(0.1, "length of a slot", unit="s", gt=0)


@part(options=SlotOptions)
class SlottedClock(RoundClock):
    """The paper's round, which lasts a whole number of slots."""

    def __init__(self, settings: ClockSettings, *, options: SlotOptions) -> None:
        super().__init__(settings)
        self.slot_s = options.slot_s

    def advance(self, memory: ClockMemory, interval: Span) -> Progress:
        """What happens in a round happens as ever; its end waits for the slot's."""
        progress = super().advance(memory, interval)
        return replace(progress, latency_s=math.ceil(progress.latency_s / self.slot_s) * self.slot_s)
