"""Laws of the robust combine rules: symmetries, breakdown points, and agreement with other ways to compute them."""

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hpfl
from hpfl.training.combine import COMBINES, CombineError, Contribution, combined
from hpfl.training.rules import rows

ROBUST = {
    "median": {},
    "trimmed-mean": {"share": 0.25},
    "krum": {"hostile": 2},
    "multi-krum": {"hostile": 2},
    "geometric-median": {"iterations": 200},
    "centred-clipping": {"tau": 0.0, "iterations": 20},
    "norm-bounding": {},
}
"""Each as it is asked to withstand two of nine."""
TRANSLATED = ("median", "trimmed-mean", "krum", "multi-krum")


def contributions(values, weights=None):
    weights = np.ones(len(values)) if weights is None else weights
    return [
        Contribution(k, torch.as_tensor(row), float(w)) for k, (row, w) in enumerate(zip(values, weights, strict=True))
    ]


def joined(name, values, weights=None, state=None, **options):
    rule = COMBINES.get(name, **{**ROBUST.get(name, {}), **options})
    return combined(rule, contributions(np.asarray(values, dtype=np.float64), weights), state or {})


def direction(name, values, **more):
    return joined(name, values, **more).direction.numpy()


def drawn(seed, count=9, length=7):
    return np.random.default_rng(seed).normal(size=(count, length))


@pytest.mark.parametrize("name", ROBUST)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), factor=st.sampled_from([1e-6, 0.5, 3.0, 1e6]))
def test_scaling_the_updates_scales_the_direction(name, seed, factor):
    values = drawn(seed)
    assert np.allclose(
        direction(name, factor * values), factor * direction(name, values), rtol=1e-7, atol=1e-9 * factor
    )


@pytest.mark.parametrize("name", TRANSLATED)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_moving_all_updates_moves_the_direction(name, seed):
    values, shift = drawn(seed), 3.0 * drawn(seed + 1, count=1)
    assert np.allclose(direction(name, values + shift), direction(name, values) + shift, atol=1e-9)


def test_a_geometric_median_moves_with_its_updates_once_it_is_found():
    values, shift = drawn(1), 3.0 * drawn(2, count=1)
    moved = direction("geometric-median", values + shift, iterations=2000)
    assert np.allclose(moved, direction("geometric-median", values, iterations=2000) + shift, atol=1e-6)


@pytest.mark.parametrize("name", ROBUST)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1.0, 1e3, 1e12, 1e30]))
def test_two_of_nine_cannot_move_the_direction_beyond_the_honest(name, seed, size):
    honest = 1.0 + 0.1 * drawn(seed, count=7)
    hostile = size * drawn(seed + 1, count=2) * (-1) ** np.arange(2)[:, None]
    found = joined(name, np.concatenate([honest, hostile]))
    reach = 3.0 * np.linalg.norm(honest, axis=1).max()
    assert np.linalg.norm(found.direction.numpy() - honest.mean(axis=0)) <= reach
    if name in ("median", "trimmed-mean"):
        assert (found.direction.numpy() <= honest.max(axis=0)).all()
        assert (found.direction.numpy() >= honest.min(axis=0)).all()
    if name in ("krum", "multi-krum") and size >= 1e3:
        assert not found.shares[7:].any()


def test_the_mean_does_not_withstand_what_the_others_do():
    assert np.abs(direction("mean", [[0.0]] * 8 + [[1e30]])).max() > 1e28


@pytest.mark.parametrize("name", ROBUST)
def test_shares_say_how_the_direction_is_made_of_linear_rules(name):
    """All but those that choose in each coordinate."""
    values = drawn(3)
    found = joined(name, values)
    assert found.shares.min() >= 0
    assert found.shares.sum() <= 1 + 1e-9
    if name not in ("median", "trimmed-mean"):
        assert np.allclose(found.shares @ values, found.direction.numpy())


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12))
def test_a_median_is_numpys(seed, count):
    values = drawn(seed, count=count)
    assert np.array_equal(direction("median", values), np.median(values, axis=0))


@pytest.mark.parametrize("count", [5, 10, 11, 20])
def test_a_trimmed_mean_is_that_of_the_sorted_middle(count):
    values = drawn(count, count=count)
    cut = int(0.2 * count)
    expected = np.sort(values, axis=0)[cut : count - cut].mean(axis=0)
    assert np.allclose(direction("trimmed-mean", values, share=0.2), expected)
    assert joined("trimmed-mean", values, share=0.2).shares.sum() == pytest.approx(1)


def krum_by_loops(values, f, m):
    """As the paper says it: for each the distances to its n - f - 2 nearest others, and the m of least sum."""
    n, scores = len(values), []
    for i in range(n):
        near = sorted(float(np.sum((values[i] - values[j]) ** 2)) for j in range(n) if j != i)
        scores.append(sum(near[: n - f - 2]))
    best = sorted(range(n), key=lambda i: scores[i])[:m]
    return sum(values[i] for i in best) / m


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), count=st.integers(7, 12), kept=st.integers(1, 3))
def test_krum_is_what_the_papers_loops_choose(seed, count, kept):
    values = drawn(seed, count=count)
    assert np.allclose(direction("krum", values), krum_by_loops(values, 2, 1))
    assert np.allclose(direction("multi-krum", values), krum_by_loops(values, 2, count - 4))
    assert np.allclose(direction("multi-krum", values, kept=kept), krum_by_loops(values, 2, kept))


def test_krum_with_too_few_updates_lowers_its_f_and_averages_two():
    values = drawn(5, count=5)
    assert np.allclose(direction("krum", values), krum_by_loops(values, 1, 1))
    assert np.allclose(direction("krum", values[:2]), values[:2].mean(axis=0))
    assert np.allclose(direction("krum", values[:1]), values[0])


@pytest.mark.parametrize("weighed", [False, True])
def test_a_geometric_median_is_that_of_a_convex_solver(weighed):
    values = drawn(8, count=8, length=4)
    weights = np.arange(1.0, 9.0) if weighed else np.ones(8)
    point = cvxpy.Variable(4)
    cost = sum(w * cvxpy.norm(point - row) for w, row in zip(weights, values, strict=True))
    cvxpy.Problem(cvxpy.Minimize(cost)).solve()
    found = joined("geometric-median", values, weights, iterations=500)
    assert np.allclose(found.direction.numpy(), point.value, atol=1e-4)


def test_a_geometric_median_stays_where_it_is_and_unit_vectors_from_it_cancel():
    values = drawn(4)
    found = direction("geometric-median", values, iterations=1000)
    assert np.allclose(direction("geometric-median", values, iterations=1001), found, atol=1e-9)
    away = values - found
    assert np.allclose((away / np.linalg.norm(away, axis=1)[:, None]).sum(axis=0), 0.0, atol=1e-6)


def test_centred_clipping_remembers_and_one_update_moves_it_by_its_part_of_tau():
    first = joined("centred-clipping", [[1.0, 0.0]] * 4, tau=0.5, iterations=1)
    assert first.direction.tolist() == [0.5, 0.0]
    again = joined("centred-clipping", [[1.0, 0.0]] * 3 + [[-1e9, 0.0]], state=first.state, tau=0.5, iterations=1)
    assert again.direction.tolist() == [0.5 + 3 * 0.5 / 4 - 0.5 / 4, 0.0]
    assert torch.equal(again.state["centre"], again.direction)
    assert joined("centred-clipping", drawn(1), tau=1e9, iterations=1).direction.numpy() == pytest.approx(
        drawn(1).mean(axis=0)
    )
    with pytest.raises(CombineError, match=r"remembers \(2,\) numbers; updates have 3"):
        joined("centred-clipping", [[1.0, 2.0, 3.0]], state=first.state)


def test_norm_bounding_scales_down_to_a_bound_or_to_the_median_norm_and_weighs():
    values = [[3.0, 4.0], [0.0, 1.0]]
    assert direction("norm-bounding", values, bound=1.0) == pytest.approx([0.3, 0.9])
    assert joined("norm-bounding", values, bound=1.0).shares == pytest.approx([0.1, 0.5])
    assert direction("norm-bounding", values, weights=[3.0, 1.0], bound=10.0) == pytest.approx([2.25, 3.25])
    assert direction("norm-bounding", [[1.0], [2.0], [-8.0]]) == pytest.approx([1.0 / 3])
    assert direction("norm-bounding", [[1.0], [2.0], [-8.0]], ratio=2.0) == pytest.approx([-1.0 / 3])


@pytest.mark.parametrize("name", ROBUST)
def test_what_is_not_finite_never_enters_and_alone_it_is_refused(name):
    values = drawn(2)
    spoilt = np.concatenate([values, [[np.nan] * 7, [np.inf] * 7]])
    found = joined(name, spoilt)
    assert np.array_equal(found.direction.numpy(), direction(name, values))
    assert found.shares[9:].tolist() == [0.0, 0.0]
    with pytest.raises(CombineError, match="none of 2 updates is finite"):
        joined(name, spoilt[9:])


@pytest.mark.parametrize("name", ROBUST)
def test_columns_change_no_bit_but_those_of_sums(name, monkeypatch):
    values = drawn(6, length=40).astype(np.float32)
    whole = joined(name, values)
    monkeypatch.setattr(rows, "_AT_ONCE", 27)
    parts = joined(name, values)
    assert np.allclose(whole.direction, parts.direction, rtol=0, atol=1e-12)
    assert np.allclose(whole.shares, parts.shares)


def test_an_edge_of_many_ues_takes_little_more_than_its_updates(monkeypatch):
    """The columns that a rule looks at together are few, however long the updates are."""
    seen = []
    stack = torch.stack
    monkeypatch.setattr(
        torch, "stack", lambda tensors, dim=0: seen.append(len(tensors) * tensors[0].numel()) or stack(tensors, dim=dim)
    )
    values = torch.randn(64, 40_000)
    for name in ("median", "trimmed-mean", "krum"):
        combined(COMBINES.get(name), contributions(values), {})
    assert max(seen) <= rows._AT_ONCE < values.numel()


def refusal(*overrides):
    with pytest.raises(hpfl.ConfigError) as caught:
        hpfl.load("quickstart-paper", overrides=overrides)
    return str(caught.value)


def test_a_rule_that_cannot_work_is_refused_before_the_run_by_name_and_value():
    few = ["network.edges=4", "network.ues_per_edge=3", "planning.max_edges=4"]
    said = refusal(*few, "training.edge_combine=krum")
    assert 'training.edge_combine is "krum" with hostile = 1; that takes 5 updates at least' in said
    assert "network.ues_per_edge gives an edge 3" in said
    assert "planning.max_edges is 2" in refusal("planning.max_edges=2", "training.combine=multi-krum")
    assert "share = 0.2; that takes 5 updates at least" in refusal(*few, "training.edge_combine=trimmed-mean")
    drawn_few = ["network.ues_per_edge=10", "life.sample_fraction=0.3", "training.edge_combine=krum"]
    assert "life.sample_fraction = 0.3 leaves 3 of 10 UEs" in refusal(*drawn_few)
    assert "it should be less than 0.5" in refusal(
        "training.combine=trimmed-mean", "training.combine_options.share=0.5"
    )


def test_weights_by_samples_are_refused_where_a_rule_counts_every_update_once():
    said = refusal("training.weighting=samples", "training.edge_combine=median")
    assert 'training.edge_combine is "median"; it counts every update once, and training.weighting is "samples"' in said
    hpfl.load("quickstart-paper", overrides=["training.weighting=samples", "training.edge_combine=geometric-median"])


def test_the_adaptive_bound_scales_an_outlier_down_leaves_out_who_is_far_beyond_and_remembers():
    values = np.eye(7)[:5] * np.array([1.0, 1.0, 1.0, 8.0, 40.0])[:, None]
    found = joined("adaptive-bound", values)
    assert np.allclose(found.shares, [0.25, 0.25, 0.25, 0.25 * 4.0 / 8.0, 0.0])  # 4 times the median, and 16 times
    assert np.allclose(found.direction.numpy(), found.shares @ values)
    assert found.state["norms"] == [1.0, 1.0, 1.0, 4.0]
    assert not found.is_mean
    alone = joined("adaptive-bound", 100.0 * values[:1], state=found.state)  # of one nobody could tell, of five before
    assert alone.shares.tolist() == [0.0]
    assert joined("adaptive-bound", 100.0 * values[:1]).is_mean


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_within_the_adaptive_bound_there_is_the_mean_to_the_last_bit(seed, weighted):
    values = drawn(seed)
    weights = np.random.default_rng(seed).integers(1, 50, size=9) if weighted else None
    found, mean = joined("adaptive-bound", values, weights, ratio=50.0), joined("mean", values, weights)
    assert found.is_mean
    assert torch.equal(found.direction, mean.direction)
    assert np.array_equal(found.shares, mean.shares)
