"""Cells that are private and send sums under masks: the noise is that of private cells, the sums are whole numbers."""

import pytest
import torch
from test_secure_cells import SECURE, configured, simulation

from hpfl.config import ConfigError
from hpfl.training.loop import train

PRIVATE = ["privacy.mechanism=gaussian", "privacy.clip_norm=0.5", "privacy.noise_multiplier=0.8"]


def ends(*overrides):
    made = simulation(*overrides)
    return train(made.start, made.parts, made.settings, lambda state, record: True)


@pytest.mark.parametrize("at", ["cell", "edge"])
def test_masks_change_a_private_run_by_rounding_alone_and_not_what_it_tells(at):
    more = [*PRIVATE, f"privacy.noise_at={at}", "training.rounds=3"]
    plain, masked = ends(*more), ends(*more, SECURE, "secure.leavers=refused")
    torch.testing.assert_close(masked.params, plain.params, rtol=0, atol=1e-4)
    assert not torch.equal(masked.params, plain.params)
    assert (masked.privacy["releases"] == plain.privacy["releases"]).all()


def test_what_a_ue_adds_is_never_longer_than_the_clip_norm():
    made = simulation(*PRIVATE, SECURE)
    private, cell = made.parts.executor.learners.settings.private, made.parts.executor.learners.settings.cell
    clip = private.clip_norm - cell.rounding
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(50, cell.length, generator=generator, dtype=torch.float64)
    rows *= clip / rows.norm(dim=1, keepdim=True)
    step = 2 * cell.largest / (cell.count - 1)
    up = rows.sign() * step * 0.999  # each number rounded away from 0, as far as it goes
    assert ((rows + up).norm(dim=1) <= private.clip_norm).all()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["privacy.adaptive=true"], "nobody counts whose update was clipped"),
        (["secure.bits=6"], "wanted more secure.bits, or a smaller range"),
        (["privacy.noise_at=cell", "secure.leavers=refused", "secure.range=1.0"], "wanted at least that"),
        (["privacy.noise_at=cell"], "give secure.leavers"),
    ],
)
def test_what_masks_leave_no_room_for_is_refused(more, told):
    with pytest.raises((ConfigError, ValueError), match=told):
        simulation(*PRIVATE, SECURE, *more)


def test_both_together_are_a_configuration():
    assert configured(*PRIVATE, SECURE).privacy.on
