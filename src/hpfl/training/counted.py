"""Parts of an update that count by the share of the UEs that were heard: SCAFFOLD's control variates do.

A mean over the UEs heard changes a mean over all of them by their share: `c <- c + (|S| / N) mean(c_i+ - c_i)`.
"""

from dataclasses import dataclass

import torch

from hpfl.learning.sending import Sending


@dataclass(frozen=True)
class Counted:
    """The places of a flat vector that count so, and the number N of UEs that train."""

    places: slice
    num_ues: int

    @staticmethod
    def by(sending: Sending, num_ues: int) -> "Counted | None":
        """What of updates counts so by the method, where so many UEs train; None: nothing."""
        places = getattr(sending.method, "counted", None)
        return None if places is None else Counted(places(sending.spec), num_ues)

    def of(self, update: torch.Tensor, heard: int) -> torch.Tensor:
        """An update [P] where so many UEs were heard in the round."""
        scaled = update.clone()
        scaled[self.places] *= heard / self.num_ues
        return scaled
