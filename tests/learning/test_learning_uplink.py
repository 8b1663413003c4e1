"""The uplink: simulator and wire agree, sizes are known beforehand, draws are a UE's own, nonsense is refused."""

from math import ceil, isclose

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from uplink_steps import Clip, Largest, Noise, Rounding

from hpfl.learning import UPLINKS, Draws, LearningError, MessageError, NonFiniteUpdateError, SideField, Uplink
from hpfl.learning.uplink import IDENTITY, row_norms
from hpfl.rng import Streams

MADE = {
    "round": Rounding,
    "clip": lambda: Clip(0.8),
    "noise": lambda: Noise(0.1),
    "largest": lambda: Largest(0.3),
}
chains = st.builds(
    lambda first, last: first + last,
    st.lists(st.sampled_from(["clip", "noise", "largest"]), max_size=3),
    st.sampled_from([[], ["round"]]),
)
UES = np.array([7, 0, 250, 3])


def chain(names: list[str]) -> Uplink:
    return Uplink.of((name, MADE[name]()) for name in names)


def draws(ues: np.ndarray = UES, key: int = 5) -> Draws:
    return Draws(Streams(3), key, ues, torch.device("cpu"))


def some(rows: int, n: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(rows, n, generator=torch.Generator().manual_seed(rows * 1000 + n), dtype=dtype)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    chains,
    st.integers(1, 70),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1e-20, 1e-3, 1.0, 1e10]),
)
def test_what_the_wire_brings_is_what_the_simulator_sends(
    names: list[str], n: int, dtype: torch.dtype, scale: float
) -> None:
    uplink, updates = chain(names), some(len(UES), n, dtype, scale)
    before = 0.1 * some(len(UES), uplink.numbers_kept(n), dtype, scale)
    arrived, after = uplink.send(updates, before, draws())
    for row, ue in enumerate(UES):
        data, kept = uplink.to_bytes(updates[row], before[row], draws(UES[[row]]))
        assert len(data) == uplink.num_bytes(n, dtype)
        assert torch.equal(uplink.from_bytes(data, n, dtype), arrived[row]), f"UE {ue}"
        assert torch.equal(kept, after[row])


@settings(deadline=None, derandomize=True)
@given(chains, st.integers(1, 4000))
def test_the_bytes_of_a_message_are_its_bits_but_for_the_last_byte_of_a_field(names: list[str], n: int) -> None:
    uplink = chain(names)
    spare = 8 * uplink.num_bytes(n) - uplink.bits(n, 32)
    assert 0 <= spare <= 7 * len(names)


def test_without_steps_an_update_arrives_as_it_is_and_takes_all_its_bits() -> None:
    updates, nothing = some(4, 9), torch.zeros(4, 0)
    assert IDENTITY.is_identity
    assert IDENTITY.bits(9, 16) == 144
    assert torch.equal(IDENTITY.send(updates, nothing, draws())[0], updates)
    data, _ = IDENTITY.to_bytes(updates[0], nothing[0], draws(UES[:1]))
    assert data == updates[0].numpy().astype("<f4").tobytes()


def test_eight_bits_take_a_quarter_and_are_right_on_average() -> None:
    uplink, n = chain(["round"]), 20_000
    assert isclose(uplink.bits(n, 32), n * 8 + 32)
    updates = torch.full((4, n), 0.3)
    updates[:, 0] = 1.0
    arrived, _ = uplink.send(updates, torch.zeros(4, 0), draws())
    assert not torch.equal(arrived, updates)
    assert (arrived - updates).abs().max() <= 1 / 127
    assert (arrived.mean(1) - updates.mean(1)).abs().max() < 2e-4


def test_what_was_left_unsent_is_sent_later() -> None:
    uplink, update = chain(["largest"]), torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    kept, total = torch.zeros(1, 4), torch.zeros(1, 4)
    for key in range(40):
        arrived, kept = uplink.send(update, kept, draws(UES[:1], key))
        assert int((arrived != 0).sum()) == ceil(0.3 * 4)
        total += arrived
    assert torch.equal(total + kept, 40 * update)
    assert kept.abs().max() < 12  # four times the largest entry: nothing is forgotten


def test_draws_are_a_ues_own_whoever_else_is_in_the_chunk() -> None:
    together = draws().of("noise").normal(50)
    for row in range(len(UES)):
        assert torch.equal(draws(UES[[row]]).of("noise").normal(50)[0], together[row])
    assert torch.equal(draws(UES[::-1].copy()).of("noise").normal(50), together.flip(0))
    others = [
        draws(key=6).of("noise"),
        draws().of("noise/2"),
        Draws(Streams(4), 5, UES, torch.device("cpu"), "uplink/noise"),
    ]
    assert not any(torch.equal(other.normal(50), together) for other in others)


def test_a_step_that_comes_twice_draws_twice() -> None:
    updates, nothing = torch.zeros(4, 30), torch.zeros(4, 0)
    once, twice = (chain(["noise"] * count).send(updates, nothing, draws())[0] for count in (1, 2))
    assert not torch.equal(twice, 2 * once)


def test_the_order_of_steps_matters() -> None:
    updates, nothing = some(4, 30), torch.zeros(4, 0)
    clipped = chain(["noise", "clip"]).send(updates, nothing, draws())[0]
    noisy = chain(["clip", "noise"]).send(updates, nothing, draws())[0]
    assert row_norms(clipped).max() <= 0.8 * (1 + 1e-6) < row_norms(noisy).max()


@pytest.mark.parametrize("n", [1, 2, 1023, 1025, 5000])
def test_a_row_has_the_same_norm_in_any_company(n: int) -> None:
    rows = some(5, n)
    together = row_norms(rows)
    assert all(torch.equal(row_norms(rows[[i]])[0], together[i]) for i in range(5))
    assert torch.allclose(together[:, 0], rows.double().norm(dim=1), rtol=1e-14)


def test_a_message_of_another_size_is_refused() -> None:
    uplink = chain(["largest", "round"])
    data, _ = uplink.to_bytes(some(1, 50)[0], torch.zeros(50), draws(UES[:1]))
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(MessageError, match=f"{len(wrong)} bytes came for an update; wanted {len(data)}"):
            uplink.from_bytes(wrong, 50)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(chains, st.randoms(use_true_random=False))
def test_any_bytes_of_the_right_size_give_a_finite_update_or_are_refused(names: list[str], random: object) -> None:
    uplink = chain(names)
    data = random.randbytes(uplink.num_bytes(11))  # type: ignore[attr-defined]
    try:
        update = uplink.from_bytes(data, 11)
    except MessageError:
        return
    assert update.shape == (11,)
    assert torch.isfinite(update).all()


def test_numbers_that_are_not_finite_are_refused_on_both_sides() -> None:
    updates = some(4, 6)
    updates[2, 3] = torch.nan
    for uplink in (IDENTITY, chain(["round"])):
        with pytest.raises(NonFiniteUpdateError, match="not finite"):
            uplink.send(updates, torch.zeros(4, 0), draws())
    data = np.array([1.0, np.inf], dtype="<f4").tobytes()
    with pytest.raises(MessageError, match="not finite"):
        IDENTITY.from_bytes(data, 2)


def test_places_beyond_the_update_are_refused() -> None:
    uplink = chain(["largest"])  # of 5 numbers, two are sent with places of 3 bits each
    numbers = np.array([1.0, 2.0], dtype="<f4").tobytes()
    assert torch.equal(uplink.from_bytes(bytes([0b001_000]) + numbers, 5), torch.tensor([1.0, 2.0, 0, 0, 0]))
    with pytest.raises(MessageError, match=r"'place' has an entry 6; wanted 0 to 4"):
        uplink.from_bytes(bytes([0b110_000]) + numbers, 5)
    with pytest.raises(MessageError, match="bits beyond its 2 entries"):
        uplink.from_bytes(bytes([0b1001_000]) + numbers, 5)


class Longer(Clip):
    """A step that hands on more than it says."""

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        return numbers.repeat(1, 2), {}, kept


class Other(Clip):
    """A step that sends beside what it does not name."""

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        return numbers, {"scale": numbers[:, :1]}, kept


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Longer(1.0), r"'mine' hands on a tensor of shape \(4, 6\); wanted \(4, 3\)"),
        (Other(1.0), "'mine' sends scale beside; wanted nothing"),
    ],
)
def test_a_step_that_does_not_keep_to_what_it_says_is_told_so(step: Clip, said: str) -> None:
    with pytest.raises(LearningError, match=said):
        Uplink.of([("mine", step)]).send(some(4, 3), torch.zeros(4, 0), draws())


def test_a_step_behind_one_that_hands_nothing_on_is_refused_beforehand() -> None:
    with pytest.raises(LearningError, match="'clip' is given no numbers"):
        chain(["round", "clip"]).bits(10, 32)


def test_what_is_kept_must_be_what_the_steps_keep() -> None:
    with pytest.raises(LearningError, match=r"what UEs keep .* of shape \(4, 2\); wanted \(4, 3\)"):
        chain(["largest"]).send(some(4, 3), torch.zeros(4, 2), draws())


def test_a_side_field_has_bits_that_its_type_can_have() -> None:
    with pytest.raises(LearningError, match="'level' has 9 bits an entry; wanted 1 to 8"):
        SideField("level", torch.uint8, 3, 9)
    with pytest.raises(LearningError, match="'scale' has 16 bits an entry; wanted 32"):
        SideField("scale", torch.float32, 1, 16)


def test_codecs_are_shipped_and_packages_bring_other_steps_as_uplinks() -> None:
    assert all(UPLINKS.part(name).traits["codec"] for name in UPLINKS.names() if UPLINKS.part(name).origin == "hpfl")
    assert UPLINKS.group == "hpfl.uplinks"
