"""Tags by which members vouch to one another for a list: two members believe the same one, whatever an edge tells."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hmac import compare_digest

from hpfl.secrecy.keys import PairKeys
from hpfl.secrecy.messages import TAG_BYTES, vouched_text
from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Session

MEMBERS = ""
"""In place of a sum's name: the list of a session's members, which is vouched for before there is any sum."""


@dataclass(frozen=True)
class Vouching:
    """One member's keys with the others of a session, all of whom were told these adverts."""

    session: Session
    adverts: bytes
    channels: Mapping[int, PairKeys]

    def tags(self, of: str, members: Collection[int], survivors: Collection[int]) -> dict[int, bytes]:
        """A tag on a list for each other of it, by a key of the two alone."""
        text = self._text(of, members, survivors)
        return {other: _tag(link.vouch, text) for other, link in self.channels.items() if other in survivors}

    def check(self, of: str, members: Collection[int], survivors: Collection[int], tags: Mapping[int, bytes]) -> None:
        """Refuse a list that fewer vouch for than the threshold, with this member."""
        text, channels = self._text(of, members, survivors), self.channels
        right = sum(compare_digest(_tag(channels[other].verify, text), tag) for other, tag in tags.items())
        if 1 + right < self.session.threshold:
            found = f"{1 + right} members (with this one) vouch for the {'survivors' if of else 'members'} it knows"
            wanted = f"wanted {self.session.threshold}: nothing is revealed"
            raise SecrecyError(f"{of}: {found}; {wanted}" if of else f"{found}; {wanted} without votes")

    def _text(self, of: str, members: Collection[int], survivors: Collection[int]) -> bytes:
        return hashlib.sha256(vouched_text(self.session, of, self.adverts, members, survivors)).digest()


def _tag(key: bytes, text: bytes) -> bytes:
    """BLAKE2b with a key (RFC 7693)."""
    return hashlib.blake2b(text, key=key, digest_size=TAG_BYTES).digest()
