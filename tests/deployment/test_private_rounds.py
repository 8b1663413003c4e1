"""Private cells over real sockets: clipped as simulated, noised as told, accounted for what has left."""

import stat

import numpy as np
import pytest
import torch
from deployment_nodes import Nodes, audit_script
from test_contract import simulated
from test_secure_rounds import CELL, SMALL

import hpfl
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.cell_noise import CellNoise
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.from_ues import FromUes
from hpfl.deployment.releases import FILE, Releases
from hpfl.deployment.secret_draws import SecretDraws, about, kept_key
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.ue_privacy import UePrivacy
from hpfl.deployment.wire import Tag
from hpfl.privacy.accountants import Accountant
from hpfl.training.private_cells import CellPrivacy

PRIVATE = ["privacy.mechanism=gaussian", "privacy.clip_norm=0.05", "network.ues_per_edge=3"]
CLIPPED = [*PRIVATE, "privacy.noise_multiplier=0.0"]
ONE = ["training.rounds=1", "network.edges=1", "planning.max_edges=1"]
TAG = Tag(run="run-1", base_round=2, base=b"\x01" * 32)


@pytest.mark.parametrize("changes", [[], CELL], ids=["plain", "masked"])
def test_without_noise_a_private_round_is_the_simulated_one(certificates, tmp_path, changes):
    with Nodes(certificates, *CLIPPED, *changes, out=str(tmp_path)) as nodes:
        nodes.start_all()
        found = nodes.play()
    expected = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *CLIPPED, *changes]))
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-6


@pytest.mark.parametrize("changes", [[], CELL], ids=["plain", "masked"])
@pytest.mark.parametrize("at", ["cell", "edge"])
def test_a_round_has_the_noise_that_is_told(certificates, tmp_path, at, changes):
    noised = [*PRIVATE, "privacy.noise_multiplier=0.5", f"privacy.noise_at={at}", *ONE, *changes]
    noised += ["secure.leavers=refused"] if changes and at == "cell" else []
    with Nodes(certificates, *noised, out=str(tmp_path / "run")) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        found = nodes.play()
        step, state = nodes.config.learning.outer_lr, nodes.state
    plain = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *noised, "privacy.noise_multiplier=0.0"]))
    noise = (found[-1] - plain[-1]).double() / step
    assert float(noise.std()) == pytest.approx(0.5 * 0.05 / 3, rel=0.02)
    assert abs(float(noise.mean())) < 5 * float(noise.std()) / len(noise) ** 0.5
    assert state.privacy["releases"].tolist() == [2, 2, 2]  # the last model makes cells tell a sketch, too
    assert audit_script.audit(tmp_path)["rounds"] == 1


def test_epsilon_is_that_of_what_has_left_and_a_budget_ends_the_run(certificates, tmp_path):
    told = [*PRIVATE, "privacy.noise_multiplier=4.0", "training.rounds=50"]
    exact = Accountant((4.0,), 1e-5)
    budget = f"privacy.budget_epsilon={exact.epsilon(6)}"
    with Nodes(certificates, *told, budget, tiny=True, out=str(tmp_path)) as nodes:
        nodes.start_all()
        epsilons = []
        nodes.play(watch=lambda state, record: epsilons.append(record.epsilon) or True)
        again = Releases(nodes.deployment.cloud._ways._ues_of, nodes.config.network.num_ues, tmp_path / FILE)
    # each round hands out a model; three more might have left before anybody had asked again
    assert epsilons == pytest.approx([exact.epsilon(2), exact.epsilon(3), exact.epsilon(4)])
    assert again.counts.tolist() == [4] * 6


def test_what_has_left_is_counted_by_models_by_sketches_that_differ_and_by_updates_of_others(tmp_path):
    def made():
        return Releases([{0, 1}, {2}], 3, tmp_path / FILE)

    counts = made()
    counts.handed([0, 1], b"one")
    counts.handed([0], b"one")  # once more, for it had not arrived
    for values in (b"a", b"a", b"b"):
        counts.sketched(0, Tag(run="r", base=b"one"), pb.Sketch(values=values))
    assert counts.counts.tolist() == [2, 2, 1]
    assert made().counts.tolist() == [2, 2, 1]
    counts.at_least(np.array([1, 5, 1]))
    assert counts.counts.tolist() == [2, 5, 1]
    (tmp_path / FILE).write_text('{"counts": [1, -2, 0]}')
    with pytest.raises(SettingsError, match="without it no epsilon can be told"):
        made()


def test_a_ue_that_goes_between_sketch_and_update_makes_another_release_with_noise_of_its_own(certificates, tmp_path):
    told = [*PRIVATE, "privacy.noise_multiplier=1.0", "network.edges=1", "planning.max_edges=1", "training.rounds=2"]
    with Nodes(certificates, *told, tiny=True, out=str(tmp_path)) as nodes:
        nodes.start_all()
        nodes.loop.run(_forgetting(nodes.ues[1]))
        nodes.play(1)
        assert list(nodes.deployment.cloud.delivered[0].ues) == [0, 2]
        assert nodes.state.privacy["releases"].tolist() == [3, 3, 3]


async def _forgetting(ue):
    """Let a UE announce its update and have none when it is asked for it."""

    async def nothing(tag, order):
        return None

    ue.up.uploads._made = nothing


def made_private(**more):
    given = {"noise_multiplier": 1.5, "clip_norm": 2.0, "noise_at": "cell", "planned": np.array([4]), "streams": None}
    return CellPrivacy(**{**given, **more})


def test_a_ue_that_computes_again_adds_the_same_noise_and_on_another_model_other_noise():
    ue = UePrivacy(made_private(), None, 7, 0, lambda: b"k" * 32)
    update = np.full(20_000, 0.01)
    once, again = ue.released(update, TAG).update, ue.released(update, TAG).update
    other = ue.released(update, Tag(run="run-1", base_round=3, base=b"\x02" * 32)).update
    assert np.array_equal(once, again)
    clipped = update * 2.0 / np.linalg.norm(update)
    assert np.std(once - clipped) == pytest.approx(1.5 * 2.0 / 2.0, rel=0.03)
    assert abs(np.corrcoef(once, other)[0, 1]) < 0.05
    nearly = update.copy()
    nearly[0] += 1e-6  # data that changed meanwhile: the difference of two messages must not show where
    assert abs(np.corrcoef(once - clipped, ue.released(nearly, TAG).update - clipped)[0, 1]) < 0.05
    stranger = UePrivacy(made_private(), None, 7, 0, lambda: b"l" * 32).released(update, TAG).update
    assert abs(np.corrcoef(once, stranger)[0, 1]) < 0.05


def test_an_edge_adds_what_ues_have_not_and_all_of_it_where_the_ues_are_others():
    noise = CellNoise(made_private(), 0, 50_000, lambda vector: vector[:8], lambda: b"k" * 32)
    zeros, mean = np.zeros(50_000), np.zeros(8)
    assert not noise.sketched(TAG, mean, {0, 1, 2, 3}).any()
    assert not noise.delivered(TAG, zeros, [0, 1, 2, 3]).any()
    assert np.std(noise.delivered(TAG, zeros, [0, 1, 2])) == pytest.approx(1.5 * 2.0 / 3, rel=0.02)
    sketched = noise.sketched(TAG, mean, {0, 1, 2})
    same, fewer = noise.delivered(TAG, zeros, [0, 1, 2]), noise.delivered(TAG, zeros, [0, 1])
    assert np.array_equal(same[:8], sketched)
    assert np.std(same) == pytest.approx(1.5 * 2.0 / 3 * 0.25**0.5, rel=0.02)
    assert abs(np.corrcoef(same, fewer)[0, 1]) < 0.05


def test_no_ues_norm_says_how_another_counts_in_a_private_cell(certificates, tmp_path):
    with Nodes(certificates, *PRIVATE, out=str(tmp_path)) as nodes:
        ways = FromUes(nodes.experiment, 9)
        sketches = {ue: checked(1.0 if ue < 5 else 0.01) for ue in range(9)}
        assert all(one.scale == 1.0 for one in ways.trusted(sketches).values())
        del sketches[0]
        assert all(one.scale == 1.0 for one in ways.trusted(sketches).values())


def checked(norm):
    nobody = np.zeros(0, dtype=np.int64)
    return CheckedSketch(values=np.full(4, norm / 2), weight=1.0, num_samples=7, ues=nobody, samples=nobody)


def test_secret_draws_are_even_normal_and_geometric():
    draws, count = SecretDraws(b"k" * 32, about("test", TAG, [0], np.zeros(1))), 200_000
    even, normal, tries = draws.random(count), draws.standard_normal(count), draws.geometric(0.25, count)
    whole = draws.integers(3, 10, count)
    assert 0 <= even.min() < even.max() < 1
    assert even.mean() == pytest.approx(0.5, abs=0.005)
    assert (normal.mean(), normal.std()) == pytest.approx((0.0, 1.0), abs=0.01)
    assert abs(normal[::2] @ normal[1::2]) / count < 0.01
    assert (tries.min(), tries.mean()) == pytest.approx((1, 4), abs=0.05)
    assert np.bincount(whole)[3:].tolist() == pytest.approx([count / 7] * 7, rel=0.03)


def test_a_nodes_key_is_drawn_once_is_its_owners_alone_and_a_damaged_one_is_named(tmp_path):
    key = kept_key(tmp_path / "state")
    path = tmp_path / "state" / "noise.key"
    assert kept_key(tmp_path / "state") == key
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"short")
    with pytest.raises(SettingsError, match="5 bytes, wanted 32"):
        kept_key(tmp_path / "state")


@pytest.mark.parametrize(
    ("changes", "told"), [(["privacy.adaptive=true"], "one norm"), (["training.edge_rounds=2"], "edge_rounds is 2")]
)
def test_what_nodes_do_not_do_for_privacy_is_refused_by_name(changes, told):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *PRIVATE, *changes])
    with pytest.raises(SettingsError, match=told):
        refuse_what_only_a_simulator_can(hpfl.config.resolve(config))


def test_noise_in_whole_numbers_is_what_is_sent_under_masks(certificates, tmp_path):
    with Nodes(
        certificates, *PRIVATE, *CELL, "privacy.noise_at=cell", "secure.leavers=refused", out=str(tmp_path)
    ) as nodes:
        work = nodes.experiment
        ue = UePrivacy(work.private, work.secure, 1, 0, lambda: b"k" * 32)
        update = np.zeros(work.spec.length, dtype=np.float32)
        leaves = ue.released(update, TAG)
        words = work.secure.update_words(leaves.update, 1, TAG, None, 1, leaves.levels)
    cell = work.secure.update
    assert words.max() < 2**cell.bits
    step = 2 * cell.largest / (cell.count - 1)
    sent = torch.from_numpy((words.astype(np.int64) - (cell.count - 1) // 2) * step)
    assert float(sent.std()) == pytest.approx(0.05 / 3**0.5, rel=0.02)
    assert np.allclose(leaves.update, sent.numpy(), atol=1e-6)
