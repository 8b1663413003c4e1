"""What an edge has of one sum: words added up, whose they are, who vouches, and what has been revealed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from hpfl.secrecy.masks import MaskedWords, word_type
from hpfl.secrecy.messages import TAG_BYTES
from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Instance
from hpfl.secrecy.words import AnyWords, WordArray, checked


@dataclass
class Ballot:
    """Tags of some members on the list of them all, by voter; once it is closed nobody votes any more."""

    name: str
    electors: list[int]
    votes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    is_closed: bool = False

    def add(self, number: int, tags: Mapping[int, bytes]) -> None:
        """The tags of one of them for all others."""
        if number not in self.electors or self.is_closed or number in self.votes:
            raise SecrecyError(f"{self.name}the tags of member {number} are not due", [number])
        if tags.keys() != set(self.electors) - {number} or any(len(tag) != TAG_BYTES for tag in tags.values()):
            raise SecrecyError(f"{self.name}wanted a tag of member {number} for each other survivor", [number])
        self.votes[number] = dict(tags)

    def close(self) -> list[int]:
        """Those who have voted; nobody else does from now on."""
        self.is_closed = True
        return sorted(self.votes)

    def of(self, number: int) -> dict[int, bytes]:
        """The tags for one of those who have sent theirs."""
        if number not in self.votes:
            raise SecrecyError(f"{self.name}member {number} has vouched for nothing and is told nothing")
        return {voter: tags[number] for voter, tags in self.votes.items() if voter != number}


@dataclass
class CollectedSum:
    """One sum; it is the members in `ballot` that are summed, and those in `revealers` that may uncover them.

    Its words are masked `among` these: the survivors of the first sum, where it `follows` that, else all members.
    """

    instance: Instance
    total: MaskedWords
    senders: set[int] = field(default_factory=set)
    among: Collection[int] = ()
    follows: bool = False
    ballot: Ballot | None = None
    revealers: Collection[int] = ()
    revealed: dict[int, dict[int, bytes]] = field(default_factory=dict)
    result: WordArray | None = None

    @staticmethod
    def of(instance: Instance) -> "CollectedSum":
        """Nothing yet."""
        return CollectedSum(instance, np.zeros(instance.length, word_type(instance.bits)))

    def add(self, number: int, words: AnyWords) -> None:
        """One member's masked words."""
        checked(words, self.instance)
        self.total += words.astype(self.total.dtype, copy=False)
        self.senders.add(number)

    @property
    def survivors(self) -> list[int]:
        """Those who are summed, once it is known who; nobody before."""
        return [] if self.ballot is None else self.ballot.electors
