"""A member's links to others: one key while it stays attached, and what that agrees on with each other member's."""

from collections import OrderedDict

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hpfl.secrecy.keys import agreed, public_bytes
from hpfl.secrecy.member_trust import Identity

_KEPT = 4096


class ChannelLinks:
    """A channel key and its agreements, which serve one session after another: most of a set-up is then done.

    A session's own keys come from these agreements *and* the adverts of that session, among which is always one of
    fresh keys of this member's: no key is used in two sessions, not even if an edge repeats a context.
    """

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()
        self.public = public_bytes(self._key)
        self._agreed: OrderedDict[bytes, bytes] = OrderedDict()
        self._signed: tuple[bytes, bytes, bytes] | None = None

    def agreed(self, other: bytes, whose: int) -> bytes:
        """The secret that this key and another member's agree on."""
        found = self._agreed.get(other)
        if found is None:
            found = self._agreed[other] = agreed(self._key, other, whose)
            if len(self._agreed) > _KEPT:
                self._agreed.popitem(last=False)
        return found

    def signature(self, identity: Identity, text: bytes) -> bytes:
        """The signature of the key, made once for a certificate: the others remember that they have checked it."""
        if self._signed is None or self._signed[:2] != (identity.certificate, text):
            self._signed = identity.certificate, text, identity.sign(text)
        return self._signed[2]
