"""What goes wrong in a session, and whom it is known to be the fault of."""

from collections.abc import Collection


class SecrecyError(ValueError):
    """A message or a step that is refused. `members` are those it is known to come from, where that can be told."""

    def __init__(self, reason: str, members: Collection[int] = ()) -> None:
        super().__init__(reason)
        self.members = tuple(sorted(members))


class TooFewError(SecrecyError):
    """Fewer members than the threshold have taken this step: nothing can be summed, and nothing has been learnt."""

    def __init__(self, step: str, found: int, wanted: int) -> None:
        super().__init__(f"{found} members have {step}; wanted {wanted} at least")
        self.step, self.found, self.wanted = step, found, wanted


class WrongMaskError(SecrecyError):
    """Some members' shares do not lead to the secrets they had promised, so that no sum can be unmasked."""


class DisputedError(SecrecyError):
    """Some members say that another's shares were none, or reveal none of it: `members` are all of them.

    Nothing can be unmasked, and the word of so few proves nothing: they may lie, or it may.
    """
