"""The same work with the primitives of Flower's SecAgg+: one of 100 members, in an environment that has flwr 1.42.

    /tmp/flower/bin/python benchmarks/flower_secrecy.py [--members 100] [--length 80000] [--bits 32]

Calls what `flwr.client.mod.secaggplus_mod` calls, in its order, with all others as neighbours: keys, shares of the mask
seed and of the private key, a shared key and an encrypted message for each other member, then a mask with each. Seconds
of one processor for one member, times the members: what `benchmarks/secrecy.py` prints as all but votes and sums, for
one sum and without its signatures, commitments and checks, which Flower's has not.
"""

import argparse
import os
import time

import numpy as np
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.ndarrays_arithmetic import parameters_addition, parameters_mod
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen, share_keys_plaintext_concat
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)


def main() -> None:
    """Print seconds of set-up and of masks, of all members together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--length", type=int, default=80_000)
    parser.add_argument("--bits", type=int, default=32)
    asked = parser.parse_args()
    others = [public_key_to_bytes(generate_key_pairs()[1]) for _ in range(asked.members - 1)]
    begin = time.process_time()
    (own, _), (channel, _) = generate_key_pairs(), generate_key_pairs()
    own_bytes, channel_bytes = private_key_to_bytes(own), private_key_to_bytes(channel)
    threshold = 2 * asked.members // 3 + 1
    seeds = create_shares(os.urandom(32), threshold, asked.members)
    keys = create_shares(own_bytes, threshold, asked.members)
    for number, other in enumerate(others):
        key = generate_shared_key(bytes_to_private_key(channel_bytes), bytes_to_public_key(other))
        message = encrypt(key, share_keys_plaintext_concat(0, number, seeds[number], keys[number]))
        decrypt(key, message)
    set_up = time.process_time()
    words = [np.zeros(asked.length, np.int64)]
    words = parameters_addition(words, pseudo_rand_gen(os.urandom(32), 2**asked.bits, [(asked.length,)]))
    for other in others:
        key = generate_shared_key(bytes_to_private_key(own_bytes), bytes_to_public_key(other))
        words = parameters_addition(words, pseudo_rand_gen(key, 2**asked.bits, [(asked.length,)]))
    parameters_mod(words, 2**asked.bits)
    end = time.process_time()
    print(f"set-up {(set_up - begin) * asked.members:7.2f} s   keys, shares, messages sealed and opened")
    print(f"masks  {(end - set_up) * asked.members:7.2f} s   agreements and masks of one sum")


if __name__ == "__main__":
    main()
