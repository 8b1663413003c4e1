"""Steps that travel coded: the cloud moves by what receivers decode, and keeps what its coding left out."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.learning.coding import Travelling
from hpfl.learning.uplink import Uplink
from hpfl.rng import Streams
from hpfl.training.cloud_step import CloudSettings, step
from hpfl.training.combine import Combined
from hpfl.training.state import EdgeUpdate, initial_state
from hpfl.training.step_coding import CLOUD_CODEC, StepCoding, StepEntries

sys.path.insert(0, str(Path(__file__).parents[1] / "learning"))
from uplink_steps import Largest, Rounding

P = 60
LARGEST = Uplink.of([("largest", Largest(0.1))])
ROUNDING = Uplink.of([("rounding", Rounding())])


def coding_of(*codings, **changes):
    given = {"bits_per_number": 32, "num_travelling": P, "forwards": True, "streams": Streams(3)}
    return StepCoding(codings=codings, **(given | changes))


def settings_of(coding, **changes):
    given = {"rounds": 1, "outer_lr": 0.5, "bandwidth_hz": 1e6, "rho": 0.5, "phi": 1.0, "max_edges": 2}
    return CloudSettings(**(given | {"staleness_bound": 5, "step_coding": coding} | changes))


def update(member, seed, base_round=0):
    values = torch.from_numpy(Streams(seed).at("update").normal(P)).float()
    return EdgeUpdate(member=member, base_round=base_round, update=values, weight=1.0, importance=0.0)


def start(round_number=0):
    params = torch.from_numpy(Streams(9).at("model").normal(P)).float()
    return initial_state(params, num_edges=4, num_ues=4).but(round=round_number)


def test_without_a_codec_the_step_is_exactly_the_plain_one_and_travels_as_the_model():
    arrivals = [update(0, 1), update(2, 2)]
    plain = step(start(), arrivals, settings_of(None))
    empty = step(start(), arrivals, settings_of(coding_of(Uplink())))
    assert torch.equal(plain.params, empty.params)
    assert (plain.bits, empty.bits) == (np.inf, np.inf)


def test_one_message_is_forwarded_and_nothing_is_lost():
    arrival = update(1, 5)
    moved = step(start(), [arrival], settings_of(coding_of(LARGEST)))
    wanted = start().params.double() - 0.5 * arrival.update.double()
    assert torch.equal(moved.params, wanted.float())
    assert moved.bits == LARGEST.bits(P, 32) + 32
    assert moved.kept == {}


def test_forwarded_messages_are_discounted_as_the_plain_step_does():
    arrival = update(1, 5, base_round=1)
    given = {"staleness_discount": 1.0}
    coded = step(start(4), [arrival], settings_of(coding_of(LARGEST), **given), scale=0.3)
    plain = step(start(4), [arrival], settings_of(None, **given), scale=0.3)
    torch.testing.assert_close(coded.params, plain.params, rtol=1e-6, atol=1e-7)
    assert coded.shares == plain.shares


def test_several_messages_are_coded_anew_where_that_is_less():
    moved = step(start(), [update(0, 1), update(2, 2)], settings_of(coding_of(ROUNDING)))
    assert moved.bits == ROUNDING.bits(P, 32)
    assert moved.sent.messages == ()
    assert torch.equal(moved.sent.taken_by(start().params), moved.params)


def test_the_cloud_keeps_what_its_coded_step_left_out_and_sends_it_later():
    arrivals = [update(0, 1), update(2, 2)]
    state, total = start(), 0.0
    for number in range(40):
        moved = step(state, arrivals, settings_of(coding_of(LARGEST)))
        state = state.but(round=number + 1, params=moved.params, kept={**state.kept, **moved.kept})
        mean = (arrivals[0].update.double() + arrivals[1].update.double()) / 2
        total = total + 0.5 * mean
        left = state.kept[CLOUD_CODEC][0].double()
        moved_by = start().params.double() - state.params.double()
        torch.testing.assert_close(moved_by + left, total, rtol=1e-5, atol=1e-5)
    assert left.norm() < 0.5 * total.norm()


def test_a_coding_that_keeps_nothing_leaves_what_another_has_kept():
    arrivals = [update(0, 1), update(2, 2)]
    menu = settings_of(coding_of(LARGEST, ROUNDING))
    state = start()
    first = step(state, arrivals, menu, codings=StepEntries(0, 0))
    state = state.but(round=1, params=first.params, kept=first.kept)
    second = step(state, arrivals, menu, codings=StepEntries(1, 1))
    assert torch.equal(second.kept[CLOUD_CODEC], first.kept[CLOUD_CODEC])


def signs(contributions, state):
    direction = torch.stack([one.update.double().sign() for one in contributions]).mean(0)
    return Combined(direction, np.full(len(contributions), 1 / len(contributions)), state)


def test_a_rule_that_is_no_mean_forwards_nothing():
    moved = step(start(), [update(1, 5)], settings_of(coding_of(ROUNDING, forwards=False), combine=signs))
    assert moved.bits == ROUNDING.bits(P, 32)
    assert moved.sent.messages == ()


def test_no_update_or_a_step_of_nothing_takes_no_bits():
    assert step(start(), [], settings_of(coding_of(LARGEST))).bits == 0.0
    still = step(start(), [update(0, 1)], settings_of(coding_of(LARGEST)), scale=0.0)
    assert (still.bits, still.kept) == (0.0, {})
    assert torch.equal(still.params, start().params)


def test_only_what_travels_is_coded():
    places = torch.arange(0, P, 2)
    arrivals = [update(0, 1), update(2, 2)]
    for one in arrivals:
        one.update[1::2] = 0.0
    coding = coding_of(ROUNDING, travelling=Travelling(places), num_travelling=P // 2)
    moved = step(start(), arrivals, settings_of(coding))
    assert torch.equal(moved.params[1::2], start().params[1::2])
    assert not torch.equal(moved.params[::2], start().params[::2])
    assert moved.bits == ROUNDING.bits(P // 2, 32)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(0, 3), min_size=1, max_size=8), entry=st.integers(0, 1))
def test_a_receiver_that_decodes_every_step_holds_the_cloud_s_model_to_the_last_bit(seed, counts, entry):
    menu = settings_of(coding_of(LARGEST, ROUNDING))
    state, receiver = start(), start().params
    for number, count in enumerate(counts):
        arrivals = [update(member, seed + 10 * number + member) for member in range(count)]
        moved = step(state, arrivals, menu, codings=StepEntries(entry, entry), scale=0.7)
        receiver = receiver if moved.sent is None else moved.sent.taken_by(receiver)
        state = state.but(round=number + 1, params=moved.params, kept={**state.kept, **moved.kept})
        assert torch.equal(receiver, state.params)


@pytest.mark.parametrize("chain", [LARGEST, ROUNDING])
def test_bits_are_known_beforehand(chain):
    coding = coding_of(chain)
    assert coding.step_bits == (float(chain.bits(P, 32)),) == coding.message_bits
    assert coding.model_bits == 32.0 * P
    assert coding_of(chain, forwards=False).message_bits == (np.inf,)


def test_a_step_may_be_coded_by_another_entry_than_uploads_were():
    arrivals, menu = [update(0, 1), update(2, 2)], settings_of(coding_of(LARGEST, Uplink(), ROUNDING))
    forwarded = step(start(), arrivals, menu, codings=StepEntries(0, 1))
    assert len(forwarded.sent.messages) == 2  # fewer bits than the model, which the second entry would send
    assert forwarded.bits == 2 * (LARGEST.bits(P, 32) + 32)
    coded = step(start(), arrivals, menu, codings=StepEntries(1, 2))
    assert coded.bits == ROUNDING.bits(P, 32)
