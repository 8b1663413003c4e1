"""Who is at fault where members say that they could not open another's shares: a word that proves nothing alone."""

from collections import Counter
from collections.abc import Collection, Mapping

from hpfl.secrecy.secrecy_errors import DisputedError, SecrecyError, WrongMaskError
from hpfl.secrecy.session import Session


def at_fault(complaints: Mapping[int, Collection[int]], session: Session) -> frozenset[int]:
    """Whom more members speak against, or who speaks against more, than may collude: one of these is honest.

    `complaints` are for each member those who speak against it. Fewer than a third collude; two at least must speak.
    """
    most = max((session.slots - 1) // 3, 1)
    spoken = Counter(by for accusers in complaints.values() for by in accusers)
    accused = {number for number, accusers in complaints.items() if len(accusers) > most}
    return frozenset(accused | {by for by, count in spoken.items() if count > most})


def dispute(reason: str, complaints: Mapping[int, Collection[int]], session: Session) -> SecrecyError:
    """How a session ends that complaints leave no sum: with whom they prove at fault, else with all they are of."""
    proved = at_fault(complaints, session)
    if proved:
        return WrongMaskError(reason, proved)
    return DisputedError(reason, {*complaints, *(by for accusers in complaints.values() for by in accusers)})
