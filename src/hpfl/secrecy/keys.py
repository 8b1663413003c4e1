"""Keys of a session: X25519 agreements, HKDF-SHA256, and what is derived from them. Primitives are `cryptography`'s."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import joined
from hpfl.secrecy.shamir import SHARE_BYTES

KEY_BYTES = 32
_NONCE = bytes(12)  # each key encrypts one message only


@dataclass(frozen=True)
class PairKeys:
    """Keys between a member and one other, each for one direction: shares are encrypted, lists vouched for."""

    seal: bytes
    open: bytes
    vouch: bytes
    verify: bytes


def derived(secret: bytes, length: int, *labels: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) of a secret, for what the labels say and nothing else."""
    return HKDF(hashes.SHA256(), length, None, joined(b"hpfl secrecy 1", *labels)).derive(secret)


def secret_bytes(secret: int) -> bytes:
    """A secret of Shamir's field as it is hashed and sent."""
    return secret.to_bytes(SHARE_BYTES, "little")


def four(number: int) -> bytes:
    """A member's number as it is hashed and sent."""
    return number.to_bytes(4, "little")


def mask_key(digest: bytes, instance: str, number: int, seed: int) -> X25519PrivateKey:
    """The key a member agrees masks with, from the seed that it shares: who knows the seed can check the key."""
    label = (b"mask key", digest, instance.encode(), four(number))
    return X25519PrivateKey.from_private_bytes(derived(secret_bytes(seed), KEY_BYTES, *label))


def public_bytes(key: X25519PrivateKey) -> bytes:
    """The public half as 32 bytes."""
    return key.public_key().public_bytes_raw()


def commitment(digest: bytes, instance: str, number: int, seed: int) -> bytes:
    """What a member promises its self mask's seed to be: a hash of 255 random bits, which hides them."""
    label = joined(b"self seed", digest, instance.encode(), four(number), secret_bytes(seed))
    return hashlib.sha256(label).digest()


def agreed(own: X25519PrivateKey, other: bytes, whose: int) -> bytes:
    """The secret that two keys agree on; a key of low order is refused."""
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise SecrecyError(f"the key of member {whose} agrees on nothing secret", [whose]) from None


def channel(digest: bytes, secret: bytes, numbers: tuple[int, int], adverts: bytes) -> PairKeys:
    """The channel from a member to another (`numbers`: own, other's) who have agreed on a secret.

    `adverts` stands for what both were told of all members, with fresh keys of theirs: the same for both, and new for
    each session.
    """
    both = b"".join(map(four, sorted(numbers)))
    found = derived(secret, 4 * KEY_BYTES, b"channel", digest, adverts, both)
    up, down = found[: 2 * KEY_BYTES], found[2 * KEY_BYTES :]
    if numbers[0] > numbers[1]:
        up, down = down, up
    return PairKeys(up[:KEY_BYTES], down[:KEY_BYTES], up[KEY_BYTES:], down[KEY_BYTES:])


def pair_masks(
    digest: bytes, instance: str, number: int, own: X25519PrivateKey, others: Mapping[int, bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Keystream keys of a member's masks with others of these public keys: those it adds, those it subtracts.

    Of two members the one with the smaller number adds (Bonawitz et al. 2017, section 4.0.1).
    """
    plus: list[bytes] = []
    minus: list[bytes] = []
    mine, name = four(number) + public_bytes(own), instance.encode()
    for other, public in others.items():
        theirs = four(other) + public
        both = mine + theirs if number < other else theirs + mine
        key = derived(agreed(own, public, other), KEY_BYTES, b"pair mask", digest, name, both)
        (plus if number < other else minus).append(key)
    return plus, minus


def self_mask(digest: bytes, instance: str, number: int, seed: int) -> bytes:
    """The keystream key of a member's self mask."""
    return derived(secret_bytes(seed), KEY_BYTES, b"self mask", digest, instance.encode(), four(number))


def sealed(key: bytes, plain: bytes, bound: bytes) -> bytes:
    """AES-256-GCM of the one message that a key is for; `bound` must be the same where it is opened."""
    return AESGCM(key).encrypt(_NONCE, plain, bound)


def opened(key: bytes, cipher: bytes, bound: bytes) -> bytes | None:
    """What was sealed; None where it was not sealed so."""
    try:
        return AESGCM(key).decrypt(_NONCE, cipher, bound)
    except InvalidTag:
        return None
