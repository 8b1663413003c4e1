"""Noise in what leaves a cell: how much there is, whose it is, and how the clip norm follows the norms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpfl.rng import Streams
from hpfl.training import private_cells
from hpfl.training.private_cells import CellPrivacy, Cells, Quantile, planned_shares

NUMBERS = 40_000
COUNTS = np.array([4, 2, 6])


def cells(counts=COUNTS, key=3, first=0):
    edge_of = np.repeat(np.arange(len(counts)), counts)
    return Cells(np.arange(first, first + len(counts)), 100 * first + np.arange(edge_of.size), edge_of, key)


def private(at="edge", planned=4, **options):
    asked = {"noise_multiplier": 1.5, "clip_norm": 0.5, "noise_at": at, "streams": Streams(1), **options}
    return CellPrivacy(planned=np.full(9, planned), **asked)


@pytest.mark.parametrize(("at", "planned", "expected"), [("edge", 4, (1, 1, 1)), ("cell", 4, (1, 1, 1.5))])
def test_a_sum_has_the_noise_that_was_promised_or_more_where_more_take_part(at, planned, expected):
    noise = private(at, planned).unit_noise(cells(), NUMBERS).numpy()
    for row, variance in zip(noise, expected, strict=True):
        assert abs(row.mean()) < 4 * np.sqrt(variance / NUMBERS)
        assert abs(row.var() / variance - 1) < 4 * np.sqrt(2 / NUMBERS)
        assert stats.kstest(row / np.sqrt(variance), "norm").pvalue > 1e-3
    correlated = np.corrcoef(noise) - np.eye(3)
    assert np.abs(correlated).max() < 4 / np.sqrt(NUMBERS)


def test_noise_of_the_cell_and_of_the_edge_have_one_distribution():
    counts = np.full(3, 4)
    cell, edge = (private(at).unit_noise(cells(counts), NUMBERS).numpy().ravel() for at in ("cell", "edge"))
    assert stats.ks_2samp(cell, edge).pvalue > 1e-3
    assert not np.array_equal(cell, edge)


@pytest.mark.parametrize("at", ["cell", "edge"])
def test_noise_is_the_same_in_any_company_and_in_any_chunks(at, monkeypatch):
    whole = private(at).unit_noise(cells(), 50)
    for edge in range(3):
        here = cells().edge_of == edge
        alone = Cells(np.array([edge]), cells().ues[here], np.zeros(int(here.sum()), dtype=np.int64), 3)
        assert torch.equal(private(at).unit_noise(alone, 50)[0], whole[edge])
    monkeypatch.setattr(private_cells, "_AT_ONCE", 100)
    assert torch.equal(private(at).unit_noise(cells(), 50), whole)
    assert not torch.equal(private(at).unit_noise(cells(key=4), 50), whole)
    assert not torch.equal(private(at, streams=Streams(2)).unit_noise(cells(), 50), whole)


def test_a_mean_has_noise_where_parameters_travel_and_nowhere_else():
    places, means = torch.tensor([0, 3]), torch.arange(12.0, dtype=torch.float64).view(3, 4)
    own = private(places=places)
    noised, rules = own.released(means, np.ones(12), cells(), np.array([0.5, 1.0, 2.0]))
    unit = own.unit_noise(cells(), 3)
    expected = unit[:, :2] * torch.tensor([0.5 / 4, 1.0 / 2, 2.0 / 6], dtype=torch.float64)[:, None] * 1.5
    torch.testing.assert_close((noised - means)[:, places], expected)
    assert torch.equal(noised[:, [1, 2]], means[:, [1, 2]])
    assert rules == ()
    assert private().multipliers == (1.5,)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.floats(0.01, 1.0))
def test_shares_are_planned_for_at_least_one_and_at_most_all(wanted, share):
    planned = planned_shares(np.array(wanted), share)
    assert np.all((planned >= 1) & (planned <= wanted))
    assert np.all(planned >= np.array(wanted) * share - 1e-6)
    assert planned_shares(np.array(wanted), 1.0).tolist() == wanted


@pytest.mark.parametrize("target", [0.3, 0.8])
def test_an_adaptive_norm_comes_to_the_quantile_of_the_norms(target):
    quantile = Quantile(target=target, step=0.2, noise_multiplier=5.0)
    own, rng = private(quantile=quantile, noise_multiplier=1.0, clip_norm=5.0), np.random.default_rng(0)
    counts, rules, seen = np.full(2, 100), (), []
    for key in range(150):
        clip = own.clip_norms(rules, 2)
        norms = np.exp(rng.normal(size=200))
        _, rules = own.released(torch.zeros(2, 3), norms, cells(counts, key), clip)
        seen.append(clip)
    wanted = np.exp(stats.norm.ppf(target))
    assert np.allclose(np.exp(np.log(seen[80:]).mean(0)), wanted, rtol=0.1)
    assert own.multipliers == (1.0, 5.0)


def test_the_count_of_unclipped_updates_is_noised_by_half_its_multiplier():
    counts = np.full(2000, 10)
    quantile = Quantile(target=0.5, step=1.0, noise_multiplier=1.0)
    own = private(quantile=quantile, planned=10)
    norms = np.tile(np.where(np.arange(10) < 5, 0.1, 9.0), 2000)
    _, rules = own.released(torch.zeros(2000, 1), norms, cells(counts), np.full(2000, 0.5))
    moved = -np.log([rule["clip_norm"] / 0.5 for rule in rules])
    assert abs(moved.mean()) < 4 * 0.05 / np.sqrt(2000)
    assert abs(moved.std() / 0.05 - 1) < 0.1
