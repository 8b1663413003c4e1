"""Parts for tests of secure sums: UEs with real certificates, and one session played with members who leave."""

import datetime
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hpfl.deployment.certificates import init_authority, issue
from hpfl.secrecy import (
    CertificateTrust,
    CertifiedMember,
    Collector,
    Instance,
    Member,
    SecrecyError,
    Session,
    TooFewError,
)

STEPS = ("masked", "vote", "reveal")


@dataclass(frozen=True)
class People:
    """An authority and UEs with certificates of it; UE n is called ue-n."""

    authority: x509.Certificate
    members: Mapping[int, CertifiedMember]
    trust: CertificateTrust


def now():
    return datetime.datetime.now(datetime.UTC)


def certified(authority, folder, name, number):
    path = issue(authority, folder, name)
    key = serialization.load_pem_private_key(path.with_suffix(".key").read_bytes(), None)
    return CertifiedMember(number, x509.load_pem_x509_certificate(path.read_bytes()), key)


def people_in(folder, count) -> People:
    authority = init_authority(folder / "ca")
    members = {number: certified(authority, folder / "nodes", f"ue-{number}", number) for number in range(count)}
    trust = CertificateTrust(lambda: [authority.certificate], now, name_of=lambda number: f"ue-{number}")
    return People(authority.certificate, members, trust)


def session_of(slots, *, context=b"round 1", lengths=(3, 5), bits=(40, 21)) -> Session:
    instances = zip(("sketch", "update"), lengths, bits, strict=True)
    return Session(context, slots, tuple(Instance(name, length, wide) for name, length, wide in instances))


@dataclass
class Playing:
    """A session under way: its members, its edge, and what everybody has sent."""

    session: Session
    members: dict[int, Member]
    collector: Collector
    parcels: dict[int, dict[int, bytes]] = field(default_factory=dict)
    masked: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    revealed: dict[str, dict[int, bytes]] = field(default_factory=dict)
    at_once: dict[str, list[int]] = field(default_factory=dict)

    def set_up(self, left: Callable[[int, str], bool] = lambda number, step: False) -> None:
        """Rounds 0 and 1, without those who leave before a step ("advert", "shares", "receive")."""
        for number, member in self.members.items():
            if not left(number, "advert"):
                self.collector.add_advert(number, member.advert())
        adverts = self.collector.adverts()
        for number in adverts:
            if not left(number, "shares"):
                self.parcels[number] = self.members[number].shares(adverts)
                self.collector.add_shares(number, self.parcels[number])
        for number in self.collector.members():
            if not left(number, "receive"):
                self.members[number].receive(self.collector.shares_for(number))

    def vouch(self, left: Callable[[int, str], bool] = lambda number, step: False) -> None:
        """Those who have received shares vouch for the members, and know that enough others do."""
        there = [number for number in self.collector.members() if not left(number, "receive")]
        for number in there:
            self.collector.vouched.add(number, self.members[number].standing.vouch())
        if len(self.collector.vouched.close()) >= self.session.threshold:
            for number in there:
                self.members[number].standing.believe(self.collector.vouched.of(number))

    def sum(self, instance: str, words: Mapping[int, np.ndarray], left=lambda number, step: False) -> np.ndarray:
        """One sum from masked words to the result, without those who leave before a step of `STEPS`.

        There are no votes where the list of survivors stands.
        """
        self.masked[instance] = {}
        for number in words:
            if not left(number, "masked"):
                self.masked[instance][number] = self.members[number].masked(instance, words[number])
                self.collector.add_masked(instance, number, self.masked[instance][number])
        survivors = self.collector.survivors(instance)
        self.revealed[instance] = {}
        self.at_once[instance] = self.collector.at_once(instance)
        for number in self.at_once[instance]:
            if not left(number, "vote") and not left(number, "reveal"):
                self.revealed[instance][number] = self.members[number].reveal_standing(instance, survivors)
                self.collector.add_revealed(instance, number, self.revealed[instance][number])
        if self.at_once[instance]:
            return self.collector.sum(instance)
        voters = [number for number in survivors if not left(number, "vote")]
        for number in voters:
            self.collector.add_votes(instance, number, self.members[number].vote(instance, survivors))
        for number in self.collector.voters(instance):
            tags = self.collector.votes_for(instance, number)
            if not left(number, "reveal"):
                self.revealed[instance][number] = self.members[number].reveal(instance, tags)
                self.collector.add_revealed(instance, number, self.revealed[instance][number])
        return self.collector.sum(instance)


def playing(people: People, session: Session, numbers: Collection[int]) -> Playing:
    members = {number: Member(session, people.members[number], people.trust) for number in numbers}
    return Playing(session, members, Collector(session, people.trust))


def drawn(session: Session, numbers: Collection[int], seed: int) -> dict[str, dict[int, np.ndarray]]:
    """Words of all members for all sums, over the whole range of a word."""
    draw = np.random.default_rng(seed)
    return {
        one.name: {
            number: draw.integers(0, 2**one.bits - 1, one.length, np.uint64, endpoint=True) for number in numbers
        }
        for one in session.instances
    }


def plain_sum(instance: Instance, words: Mapping[int, np.ndarray], of: Collection[int]) -> list[int]:
    """The sum by Python's integers."""
    return [sum(int(words[number][place]) for number in of) % 2**instance.bits for place in range(instance.length)]


@contextmanager
def refused(error: type[SecrecyError] = SecrecyError, *, match: str = "") -> Iterator[None]:
    """An error of exactly this kind, with these words."""
    with pytest.raises(SecrecyError, match=re.escape(match)) as found:
        yield
    assert type(found.value) is error, found.value


def too_few(step: str):
    return refused(TooFewError, match=step)
