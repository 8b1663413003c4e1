"""What a secure sum costs: all members of a cell and their edge in one process, one after another.

    .venv/bin/python benchmarks/secrecy.py [--json] [--members 100] [--length 80000] [--bits 32] [--dropped 0]
    .venv/bin/python benchmarks/secrecy.py --neighbours        # the table of docs/secure.md; times nothing

Seconds of one processor for all members together, of their second session: certificates are parsed, and the channels'
keys agreed on, as they are while UEs stay attached. `first` is what the first session spends beyond that. The sum is
compared with the plain one, to the last integer. Two sums share a set-up, as in a deployment: of the sketches (256
numbers of 64 bits) and of the updates.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hpfl.deployment.certificates import init_authority, issue
from hpfl.secrecy import CertificateTrust, CertifiedMember, ChannelLinks, Collector, Instance, Member, Session, graph

WORK = {
    "first": ("first session: certificates, signatures and channels beyond a later one's", None),
    "adverts": ("keys made, sent and taken in", None),
    "shares": ("adverts checked, channels' keys, shares made and sealed", 1.0),
    "receive": ("shares opened", None),
    "masks": ("masks of both sums, with their agreements", 2.0),
    "masked": ("words masked, and added up at the edge", None),
    "votes": ("survivors vouched for", None),
    "reveal": ("tags and shares checked", None),
    "sum": ("the edge unmasks both sums", 1.0),
    "all": ("all of it but `first`", 4.0),
}


def main() -> None:
    """Print a line, or an object, for each part of the work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--length", type=int, default=80_000)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--dropped", type=int, default=0, help="members that send shares and no masked words")
    parser.add_argument("--neighbours", action="store_true", help="how many a sparse graph would need")
    asked = parser.parse_args()
    if asked.neighbours:
        neighbours()
        return
    rows = measured(asked.members, asked.length, asked.bits, asked.dropped)
    print(json.dumps(rows) if asked.json else "\n".join(map(text, rows)))


def neighbours() -> None:
    """For an honest edge and for one that lies: where thirds may collude and leave, and where 5 % may."""
    for members in (30, 100, 300, 1000, 1024):
        cells = graph.Cell.of_thirds(members), graph.Cell(members, members // 20, members // 20)
        found = [graph.degree(cell, edge_lies=lies) for cell in cells for lies in (False, True)]
        print(members, *(one.neighbours if one else "none" for one in found))


def text(row: dict[str, Any]) -> str:
    """A line for people."""
    bar = "" if row["bar"] is None else f"   bar {row['bar']:g} s: {'kept' if row['ok'] else 'MISSED'}"
    return f"{row['work']:8} {row['value']:7.3f} {row['unit']}   {WORK[row['work']][0]}{bar}"


def measured(members: int, length: int, bits: int, dropped: int) -> list[dict[str, Any]]:
    """Rows of both sessions' seconds."""
    with tempfile.TemporaryDirectory() as folder:
        cell = Cell(Path(folder), members, length, bits, dropped)
        first, later = cell.session(b"1"), cell.session(b"2")
    later["first"] = sum(first.values()) - sum(later.values())
    later["all"] = sum(seconds for work, seconds in later.items() if work != "first")
    bars = {work: bar if (members, length) == (100, 80_000) else None for work, (_, bar) in WORK.items()}
    return [
        {"work": work, "value": later[work], "unit": "s", "bar": bar, "ok": bar is None or later[work] <= bar}
        for work, bar in bars.items()
    ]


class Cell:
    """Members with certificates, and what each keeps from session to session."""

    def __init__(self, folder: Path, members: int, length: int, bits: int, dropped: int) -> None:
        authority = init_authority(folder / "ca")

        def identity(number: int) -> CertifiedMember:
            path = issue(authority, folder, f"ue-{number}")
            key = serialization.load_pem_private_key(path.with_suffix(".key").read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            return CertifiedMember(number, x509.load_pem_x509_certificate(path.read_bytes()), key)

        def trust() -> CertificateTrust:
            return CertificateTrust(lambda: [authority.certificate], lambda: datetime.datetime.now(datetime.UTC))

        self.kept = {number: (identity(number), trust(), ChannelLinks()) for number in range(members)}
        self.trust, self.dropped = trust(), set(range(dropped))
        self.sums = (Instance("sketch", 256, 64), Instance("update", length, bits))

    def session(self, context: bytes) -> dict[str, float]:
        """Seconds of each part of one session."""
        spent: dict[str, float] = {}

        def timed(work: str, call: Callable[..., Any], *arguments: Any) -> Any:
            begin = time.process_time()
            found = call(*arguments)
            spent[work] = spent.get(work, 0.0) + time.process_time() - begin
            return found

        session = Session(context, len(self.kept), self.sums)
        members = {number: timed("adverts", Member, session, *kept) for number, kept in self.kept.items()}
        edge = Collector(session, self.trust)
        for number, member in members.items():
            timed("adverts", edge.add_advert, number, member.advert())
        adverts = edge.adverts()
        for number, member in members.items():
            edge.add_shares(number, timed("shares", member.shares, adverts))
        for number in edge.members():
            timed("receive", members[number].receive, edge.shares_for(number))
        for one in self.sums:
            self._one_sum(one, members, edge, timed)
        return spent

    def _one_sum(self, one: Instance, members: dict[int, Member], edge: Collector, timed: Callable[..., Any]) -> None:
        draw, plain = np.random.default_rng(0), np.zeros(one.length, np.uint64)
        for number, member in members.items():
            words = draw.integers(0, 2**one.bits - 1, one.length, np.uint64, endpoint=True)
            timed("masks", member.prepare, one.name)
            masked = timed("masked", member.masked, one.name, words)
            if number not in self.dropped:
                plain += words
                timed("masked", edge.add_masked, one.name, number, masked)
        survivors = edge.survivors(one.name)
        for number in survivors:
            edge.add_votes(one.name, number, timed("votes", members[number].vote, one.name, survivors))
        for number in edge.voters(one.name):
            tags = edge.votes_for(one.name, number)
            shares = timed("reveal", members[number].reveal, one.name, tags)
            timed("reveal", edge.add_revealed, one.name, number, shares)
        found = timed("sum", edge.sum, one.name)
        if not np.array_equal(found, plain & np.uint64(2**one.bits - 1)):
            sys.exit(f"the sum {one.name} is not the plain sum")


if __name__ == "__main__":
    main()
