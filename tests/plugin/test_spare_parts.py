"""Each spare part does what it says, and is found by its name where the package is installed."""

import csv
import json
import math

import numpy as np
import pytest
import torch
from hpfl_spare_parts.channel import CorrelatedShadowing, ShadowingOptions
from hpfl_spare_parts.combine import TrimOptions, trimmed_mean
from hpfl_spare_parts.metric import CalibrationOptions, calibration_error
from hpfl_spare_parts.partitioner import StripsOptions, strips
from hpfl_spare_parts.planner import RestedOptions, rested
from hpfl_spare_parts.uplink import EightBits, EightBitsOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_runs import PACKAGE, everything, hpfl_command, places
from scipy.stats import trim_mean

import hpfl
from hpfl.data import PartitionError, PartitionSettings
from hpfl.learning import Draws, TestOutputs, Uplink
from hpfl.planning import RoundProblem
from hpfl.rng import Streams
from hpfl.training import Contribution

BODY, HEAD = 784 * 100 + 100, 100 * 10 + 10
BITS = 8 * BODY + 32 * math.ceil(BODY / 512)
OPTIONS = {
    "rested": ["rest"],
    "correlated-shadowing": ["sigma_db", "distance_m"],
    "own-head": ["head"],
    "eight-bits": ["block"],
    "middle-mean": ["trim"],
    "calibration-error": ["bins"],
    "rounds-csv": ["file"],
    "strips": ["descending"],
    "slotted": ["slot_s"],
}


class Kept(hpfl.Watcher):
    """Keeps what a run begins and ends with."""

    def started(self, run):
        self.first = run.state

    def round(self, state, record):
        self.last = state


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run of four rounds with all parts: its folder, its results, and what its UEs kept."""
    folder, kept = tmp_path_factory.mktemp("played"), Kept()
    config = everything(folder, "training.rounds=4")
    return folder / "run", hpfl.run(config, out=folder / "run", figures=False, watchers=[kept]), kept


def test_no_part_takes_more_than_60_lines():
    files = list((PACKAGE / "src").rglob("*.py"))
    assert len(files) == 1 + len(places())
    assert all(len(file.read_text().splitlines()) <= 60 for file in files)


def test_all_nine_parts_are_listed_where_the_package_is_installed(environment):
    kinds = json.loads(hpfl_command(["parts", "--json"], environment))
    listed = [one for kind in kinds.values() for one in kind["parts"] if one["origin"] == "hpfl-spare-parts"]
    assert {one["name"]: [option["name"] for option in one["options"]] for one in listed} == OPTIONS
    assert all(one["meaning"] and all(option["meaning"] for option in one["options"]) for one in listed)


def shadow_db(xy_m, seed, **options):
    channel = CorrelatedShadowing(settings=None, options=ShadowingOptions(**options))
    return 10 * np.log10(channel.shadow("ue", np.asarray(xy_m, dtype=float), Streams(seed)))


def test_the_shadowing_of_two_places_is_correlated_by_their_distance():
    here = 1e5 * Streams(1).at("places").uniform(40).reshape(20, 2)  # too far from each other to be alike
    distances_m = (0.0, 50.0, 200.0)
    xy_m = np.concatenate([here + np.array([0.6, 0.8]) * away_m for away_m in distances_m])
    drawn = [shadow_db(xy_m, seed, sigma_db=6.0, distance_m=50.0).reshape(3, 20) / 6.0 for seed in range(150)]
    alike = np.array([(fields[0] * fields).mean(axis=1) for fields in drawn])
    error = alike.std(axis=0) / math.sqrt(len(alike))
    assert (error < 0.03).all()
    assert (np.abs(alike.mean(axis=0) - np.exp(np.array(distances_m) / -50.0)) < 4 * error).all()


def test_a_place_has_its_shadow_whoever_asks():
    xy_m = 500 * Streams(3).at("places").uniform(40).reshape(20, 2)
    np.testing.assert_array_equal(shadow_db(xy_m[7:9], 0), shadow_db(xy_m, 0)[7:9])


def test_eight_bits_are_a_quarter_of_the_bits_on_air():
    uplink = Uplink.of([("eight-bits", EightBits(options=EightBitsOptions()))])
    assert uplink.bits(BODY, 32) == BITS
    assert uplink.bits(BODY, 32) / (32 * BODY) == pytest.approx(0.25, abs=0.002)


def test_the_record_counts_eight_bits_of_the_body_from_ues_and_32_from_edges(played):
    for row in played[1].rounds:
        assert row["uplink_bits"] == pytest.approx(row["num_scheduled"] * (3 * BITS + 32 * BODY), rel=1e-9)


def test_what_arrives_is_within_a_level_and_right_in_the_mean():
    numbers = torch.linspace(-1.0, 2.0, 700)
    draws = Draws(Streams(0), 0, np.arange(2000), torch.device("cpu"))
    uplink = Uplink.of([("eight-bits", EightBits(options=EightBitsOptions()))])
    arrived, _ = uplink.send(numbers.expand(2000, -1), torch.empty(2000, 0), draws)
    level = 2.0 / 127
    assert (arrived - numbers).abs().max() <= level * 1.001
    assert (arrived.double().mean(0) - numbers).abs().max() < 5 * level / 2 / math.sqrt(2000)


def test_a_message_is_what_the_simulator_hands_on():
    uplink = Uplink.of([("eight-bits", EightBits(options=EightBitsOptions(block=7)))])
    rows = torch.from_numpy(Streams(1).at("rows").normal(3 * 50).reshape(3, 50)).float()
    rows[1] = 0.0
    draws = [Draws(Streams(0), 4, np.array(ues), torch.device("cpu")) for ues in ([5, 6, 7], [5], [6], [7])]
    arrived = uplink.send(rows, rows[:, :0], draws[0])[0]
    for row, own, alone in zip(rows, arrived, draws[1:], strict=True):
        assert torch.equal(uplink.from_bytes(uplink.to_bytes(row, row[:0], alone)[0], 50), own)


def test_heads_are_private_and_the_body_is_shared(played):
    first, last = played[2].first, played[2].last
    assert last.kept["method"].shape == (12, HEAD)
    assert len(torch.unique(last.kept["method"], dim=0)) == 12
    assert torch.equal(last.params[BODY:], first.params[BODY:])
    assert not torch.equal(last.params[:BODY], first.params[:BODY])


def test_an_outlier_has_no_share_in_a_trimmed_mean():
    updates = [torch.tensor([1.0, 2.0, 6.0]) + at for at in (0.0, 0.5, 1.0, 1.5)] + [torch.full((3,), 1e6)]
    found = trimmed_mean([Contribution(k, one, 1.0) for k, one in enumerate(updates)], {}, options=TrimOptions())
    assert found.shares[4] == 0
    assert found.shares[0] == 0
    np.testing.assert_allclose(found.direction, [2.0, 3.0, 7.0])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 999), count=st.integers(1, 12), trim=st.floats(0.0, 0.49))
def test_a_trimmed_mean_is_that_of_scipy(seed, count, trim):
    rows = Streams(seed).at("rows").normal(5 * count).reshape(count, 5)
    given = [Contribution(k, torch.from_numpy(row), 1.0) for k, row in enumerate(rows)]
    found = trimmed_mean(given, {}, options=TrimOptions(trim=trim))
    cut = min(math.ceil(trim * count), (count - 1) // 2)
    np.testing.assert_allclose(found.direction, trim_mean(rows, cut / count + 1e-9), rtol=1e-12, atol=1e-15)
    assert found.shares.sum() == pytest.approx(1.0)


def calibration_by_hand(outputs, targets, bins):
    """Bin by bin, the samples in it times the gap between their mean confidence and their accuracy."""
    total = 0.0
    chances = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    for index in range(bins):
        inside = [p for p in range(len(targets)) if min(int(chances[p].max() * bins), bins - 1) == index]
        right = sum(chances[p].argmax() == targets[p] for p in inside)
        total += abs(right - sum(chances[p].max() for p in inside))
    return total / len(targets)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_calibration_error_is_that_of_a_plain_loop(bins):
    outputs = 2 * Streams(0).at("outputs").normal(4 * 30 * 5).reshape(4, 30, 5)
    targets = Streams(0).at("targets").integers(5, 120).reshape(4, 30)
    sizes = [30, 17, 8, 1]
    weights = np.array([[1 / size if sample < size else 0.0 for sample in range(30)] for size in sizes])
    tests = TestOutputs(*map(torch.from_numpy, (outputs, targets, weights)), task=None)
    found = calibration_error(tests, options=CalibrationOptions(bins=bins))
    wanted = [calibration_by_hand(outputs[u][:size], targets[u][:size], bins) for u, size in enumerate(sizes)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_both_calibration_errors_stand_in_every_evaluation(played):
    evaluated = [row for row in played[1].rounds if row["personalised_accuracy"] is not None]
    assert len(evaluated) == 2
    for name in ("personalised_calibration_error", "calibration_error", "personalised_calibration_error_p90"):
        assert all(0 < row[name] < 1 for row in evaluated)


def test_the_csv_has_a_line_for_every_round(played):
    folder, result, _ = played
    with (folder / "rounds.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [{name: float(value) for name, value in line.items()} for line in lines] == [
        {name: row[name] for name in ("round", "time_s", "num_aggregated", "uplink_bits")} for row in result.rounds
    ]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("disjoint", [True, False])
def test_strips_are_sorted_by_label_and_reach_over_all_labels(descending, disjoint):
    targets = Streams(0).at("targets").integers(10, 2000)
    sizes = (40 if disjoint else 140) + Streams(0).at("sizes").integers(21, 20)
    given = {"settings": PartitionSettings(disjoint=disjoint), "options": StripsOptions(descending=descending)}
    shards = strips(targets, 10, sizes, streams=Streams(0), **given)
    np.testing.assert_array_equal(shards.sizes, sizes)
    has = shards.label_counts(targets, 10) > 0
    assert has.any(axis=0).all()
    assert (has.sum(axis=1) <= 3).all()
    first, last = has.argmax(axis=1), 9 - has[:, ::-1].argmax(axis=1)
    turn = -1 if descending else 1
    assert (turn * np.diff(first) >= 0).all()
    assert (turn * np.diff(last) >= 0).all()


def test_more_strips_than_there_are_samples_are_refused():
    given = {"settings": PartitionSettings(), "streams": Streams(0), "options": StripsOptions()}
    with pytest.raises(PartitionError, match="want 2,001 samples, the data has 2,000"):
        strips(np.zeros(2000, dtype=np.int64), 10, np.array([2001]), **given)


def test_rounds_last_whole_slots_and_no_more_than_they_must(played, tmp_path):
    plain = hpfl.run(everything(tmp_path, "training.rounds=4", "training.clock=round", "training.clock_options={}"))
    for slotted, usual in zip(played[1].rounds, plain.rounds, strict=True):
        slots = slotted["latency_s"] / 0.05
        assert slots == pytest.approx(round(slots), abs=1e-9)
        assert usual["latency_s"] <= slotted["latency_s"] < usual["latency_s"] + 0.05


def chosen(problem, rest, rounds):
    memory, sets = {}, []
    for _ in range(rounds):
        plan, memory = rested(problem, memory, None, options=RestedOptions(rest=rest))
        sets.append(np.flatnonzero(plan.scheduled).tolist())
    return sets


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        (0, [[1, 3], [1, 3], [1, 3]]),
        (1, [[1, 3], [0, 2], [1, 3]]),
        (2, [[1, 3], [0, 2], [4], [1, 3], [0, 2]]),
        (9, [[1, 3], [0, 2], [4], [3], [3]]),  # where all are tired, the most important one
    ],
)
def test_an_edge_that_has_uploaded_rests(rest, wanted):
    assert chosen(five_edges(staleness=[0] * 5), rest, len(wanted)) == wanted


def test_an_edge_at_the_staleness_bound_has_no_rest():
    assert chosen(five_edges(staleness=[0, 0, 0, 0, 7]), 3, 2) == [[3, 4], [1, 4]]


def five_edges(staleness):
    return RoundProblem(
        bandwidth_hz=1e6,
        edge_noise_w_per_hz=np.full(5, 4e-21),
        ue_noise_w_per_hz=np.full(5, 4e-21),
        rho=0.5,
        phi=1.0,
        max_edges=2,
        staleness_bound=7,
        edge_gain=np.full(5, 1e-8),
        edge_power_w=np.full(5, 0.01),
        edge_bits=np.full(5, 1e5),
        importance=np.array([2.0, 4.0, 3.0, 5.0, 1.0]),
        staleness=np.array(staleness),
        edge_of_ue=np.arange(5),
        ue_gain=np.full(5, 1e-8),
        ue_power_w=np.full(5, 0.01),
        ue_bits=np.full(5, 1e5),
        compute_s=np.full(5, 0.1),
    )
