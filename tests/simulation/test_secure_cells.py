"""Sums under masks in the simulator: what arrives is what exact sums say, and nothing below a threshold."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hpfl
from hpfl.cell_sums import sketch_sum_of
from hpfl.config import ConfigError, fingerprint, resolve
from hpfl.data.sources import load_dataset
from hpfl.learning.draws import Draws
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.edge_round import draw_key
from hpfl.training.loop import play_round, train
from hpfl.training.masked_sum import _pieces

SECURE = "secure.aggregation=cell"
SMALL = [
    "network.edges=3",
    "network.ues_per_edge=[5, 4, 6]",
    "data.samples_per_ue=[5, 20]",
    "learning.model=ue_and_rule_parts:narrow",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.planner=random",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=8",
]


def configured(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


def simulation(*overrides):
    made = configured(*overrides)
    return build_simulation(made, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def rounds_of(made, count=None):
    """States, observations, outcomes and records of a run, round by round."""
    played, state = [], made.start

    class Watched:
        def __getattr__(self, name):
            return getattr(made.parts.executor, name)

        def observe(self, state):
            played.append([state, made.parts.executor.observe(state)])
            return played[-1][1]

        def execute(self, state, observation, plan):
            played[-1].append(made.parts.executor.execute(state, observation, plan))
            return played[-1][2]

    parts = replace(made.parts, executor=Watched())
    for _ in range(count or made.settings.rounds):
        state, record = play_round(state, parts, made.settings)
        played[-1] += [record, state]
    return played


def rows_of(made, params, ues, key):
    """The updates of UEs, one by one, from a model."""
    groups = np.zeros(len(ues), dtype=np.int64)
    asked = {"ues": ues, "groups": groups, "num_groups": 1, "streams": made.parts.streams, "key": key}
    return made.parts.executor.learners.cohort.updates(params, **asked, keep_per_ue=True).per_ue


def level(number, scale, count, uniform):
    """A level by hand, with Python's numbers."""
    half = (count - 1) / 2
    steps = min(max(float(number) * (half / float(scale)), -half), half) + half
    return int(steps // 1) + (float(uniform) < steps - steps // 1)


def by_hand(
    made, params, ues, base_round, *, key=None, scales=None, count=2**24 - 1, largest=16.0, bucket=0, weighed=False
):
    """The mean of some UEs' updates and, of each bucket, the share that was clipped: Python's own whole numbers."""
    key, streams = draw_key(base_round, 0) if key is None else key, made.parts.streams
    rows = rows_of(made, params, ues, key)
    n = rows.shape[1]
    scale_of = [largest] * n if scales is None else [float(scales[i // bucket]) for i in range(n)]
    total, clipped, weight = [0] * n, [0] * (0 if scales is None else len(scales)), 0
    for ue, row in zip(ues, rows, strict=True):
        own = int(made.fleet.num_samples[ue]) if weighed else 1
        uniform = (
            Draws(streams, key, np.array([ue]), torch.device("cpu"), "cell/masking/levels").uniform32(n)[0].tolist()
        )
        numbers, weight = row.double().tolist(), weight + own
        for at, number in enumerate(numbers):
            total[at] += own * level(number, scale_of[at], count, uniform[at])
        for at in range(len(clipped)):
            piece = numbers[at * bucket : (at + 1) * bucket]
            clipped[at] += own * (max(map(abs, piece)) > float(scales[at]))
    mean = [
        float(2 * one - (count - 1) * weight) * (scale / (count - 1)) / weight
        for one, scale in zip(total, scale_of, strict=True)
    ]
    return torch.tensor(mean, dtype=torch.float64), [Fraction(one, weight) for one in clipped]


def cell_of(made, edge):
    return np.flatnonzero(made.fleet.edge_of_ue == edge)


def arrived(made, mean, edge, base_round):
    """A mean as the cloud decodes it, where the edge codes it again."""
    chain = made.parts.executor.learners.codings[0]
    draws = Draws(made.parts.streams, base_round, np.array([edge]), torch.device("cpu"), "codec/edge")
    own = mean.float().unsqueeze(0)
    return chain.send(own, own[:, :0], draws)[0][0]


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_an_update_is_what_exact_sums_of_whole_numbers_say(weighting):
    made = simulation(SECURE, f"training.weighting={weighting}")
    state, _, outcome, record, _ = rounds_of(made, 1)[0]
    assert len(outcome.arrivals) == 2
    for came in outcome.arrivals:
        ues = cell_of(made, came.member)
        expected, _ = by_hand(made, state.params, ues, 0, weighed=weighting == "samples")
        assert torch.equal(came.update, expected.float())
        assert came.importance == pytest.approx(float(expected.float().double().square().sum()), rel=1e-12)
    assert record.cells_below_threshold == record.num_scaled_down == 0


@pytest.mark.parametrize(("uplink", "count"), [('["ternary"]', 3), ('[{name="rounding", bits=2, bucket=100}]', 4)])
def test_codecs_use_the_scales_that_a_cell_has_agreed_on_and_remember_them(uplink, count):
    made = simulation(SECURE, f"learning.uplink={uplink}", "planning.max_edges=3")
    bucket, known = made.parts.executor.learners.codings[0].steps[0][1].bucket, {}
    for number, (state, _, outcome, _, after) in enumerate(rounds_of(made, 3)):
        assert len(outcome.arrivals) == 3
        for came in outcome.arrivals:
            scales = known.get(came.member, torch.full((-(-len(state.params) // bucket),), 0.1))
            ues, more = cell_of(made, came.member), {"scales": scales, "count": count, "bucket": bucket}
            mean, clipped = by_hand(made, state.params, ues, number, **more)
            assert torch.equal(came.update, arrived(made, mean, came.member, number))
            now = after.edge_rules["now"][str(came.member)]["scales"]
            grown = [float(s) * np.exp(2 * (float(c) - 0.1)) for s, c in zip(scales, clipped, strict=True)]
            assert now.tolist() == pytest.approx(grown, rel=1e-6)
            known[came.member] = now
    assert len({float(one) for scales in known.values() for one in scales}) > 5


def test_places_of_random_k_are_a_cells_own_and_all_its_ues_share_them():
    made = simulation(SECURE, 'learning.uplink=[{name="random-k", k=40}]', "network.backhaul=false", *ONE)
    state, _, outcome, record, _ = rounds_of(made, 1)[0]
    update, sparse = outcome.arrivals[0].update, made.parts.executor.learners.settings.cell.sparse
    assert int((update != 0).sum()) <= 40
    seed = Draws(made.parts.streams, 0, np.array([0]), torch.device("cpu"), "cell/masking/places").uniform(1)
    places = sparse.places_of((seed * 2**32).long(), len(update))[0]
    rows = rows_of(made, state.params, cell_of(made, 0), 0).mean(0).double()
    expected = rows[places] * sparse.sizes(len(update), update.device)
    assert torch.allclose(update[places].double(), expected, atol=2e-3)
    assert record.uplink_bits == 6 * 40 * made.parts.executor.learners.settings.cell.bits


ONE = ["network.edges=1", "network.ues_per_edge=6", "planning.max_edges=1"]


def test_places_differ_between_cells_and_rounds():
    made = simulation(SECURE, 'learning.uplink=[{name="random-k", k=40}]')
    cell, streams, device = made.parts.executor.learners.settings.cell, made.parts.streams, torch.device("cpu")
    seeds = [
        int(cell.seeds(Draws(streams, key, np.array([edge]), device, "cell"))) for key in (0, 1) for edge in (0, 1)
    ]
    assert len(set(seeds)) == 4


def test_uploads_take_the_words_of_a_sum_and_sketches_theirs():
    made = simulation(SECURE, "planning.importance=sketch", "planning.sketch_size=8")
    executor, n = made.parts.executor, made.start.params.numel()
    word = (2 * (2**23 - 1) * 6).bit_length()
    assert word == 27
    assert executor.load.ue_bits == n * word
    assert executor.load.edge_bits == n * 32
    assert executor.sketching.ue_bits == word
    _, seen, outcome, record, _ = rounds_of(made, 1)[0]
    ues = sum(len(cell_of(made, came.member)) for came in outcome.arrivals)
    assert seen.spent_bits == 15 * 8 * word + 3 * 8 * 32
    assert record.uplink_bits == seen.spent_bits + ues * n * word + 2 * n * 32
    weighed = simulation(SECURE, "training.weighting=samples").parts.executor.load
    assert weighed.ue_bits == n * (2 * (2**23 - 1) * 6 * 20).bit_length()
    coded = simulation(SECURE, 'learning.uplink=["ternary"]').parts.executor.load
    assert coded.of_coding(0)[0] == (n + -(-n // 512)) * (2 * 6).bit_length()


def test_edge_rounds_follow_each_other_under_masks():
    made = simulation(SECURE, "training.edge_rounds=2", "learning.outer_lr=0.1")
    state, _, outcome, _, _ = rounds_of(made, 1)[0]
    came = outcome.arrivals[0]
    ues = cell_of(made, came.member)
    first, _ = by_hand(made, state.params, ues, 0)
    start = state.params - 0.1 * first.float()
    second, _ = by_hand(made, start, ues, 0, key=draw_key(0, 1))
    assert torch.equal(came.update, first.float() + second.float())
    assert made.parts.executor.load.ue_bits == 2 * state.params.numel() * 27


def test_an_update_beyond_the_range_is_counted():
    made = simulation(SECURE, "secure.range=0.001", "secure.first_scale=0.0001")
    _, seen, outcome, record, _ = rounds_of(made, 1)[0]
    assert record.num_scaled_down == seen.num_scaled == 15
    assert float(outcome.arrivals[0].update.abs().max()) <= 0.001


def test_a_cell_that_hears_fewer_than_its_threshold_has_nothing():
    made = simulation(SECURE, "life.ue_failure=0.25", "training.rounds=12")
    least, below = np.array([4, 3, 5]), 0
    assert made.parts.executor.needs.tolist() == least.tolist()
    for state, seen, outcome, record, _ in rounds_of(made):
        links = seen.links
        struck = made.parts.streams.at("failure/ue", state.round).uniform(15) < 0.25
        for edge in record.scheduled:
            heard = [ue for ue in links.members[links.edge_of_ue == edge] if not struck[ue]]
            came = [one for one in outcome.arrivals if one.member == edge]
            assert bool(came) == (len(heard) >= least[edge])
            assert (edge in record.dropped) == (not came)
            below += not came
            for one in came:
                expected, _ = by_hand(made, params_of(made, state, seen, edge), np.array(heard), one.base_round)
                assert torch.equal(one.update, expected.float())
        assert record.cells_below_threshold == sum(edge in record.dropped for edge in record.scheduled)
    assert 3 < below < 20


def params_of(made, state, seen, edge):
    """The model that an edge holds."""
    rounds = seen.clock["held/rounds"].tolist()
    return torch.from_numpy(seen.clock["held/models"][rounds.index(int(seen.base_round[edge]))])


@pytest.mark.parametrize("clock", ["round", "event"])
def test_ues_that_leave_take_their_cell_below_the_threshold(clock):
    made = simulation(SECURE, "life.leave=0.15", "life.come_back=0.5", f"training.clock={clock}", "training.rounds=20")
    played, least = rounds_of(made), made.parts.executor.needs
    assert sum(record.cells_below_threshold for *_, record, _ in played) > 3
    for _, seen, outcome, record, _ in played:
        counts = np.bincount(seen.links.edge_of_ue, minlength=3)
        assert ((counts >= least) | (counts == 0)).all()
        assert (seen.active == (counts > 0)).all()
        assert record.cells_below_threshold >= int((~seen.active).sum())
        assert all(counts[one.member] >= least[one.member] for one in outcome.arrivals)


def test_without_masks_nothing_counts_as_below_a_threshold():
    played = rounds_of(simulation("life.leave=0.3", "life.ue_failure=0.5", "training.rounds=6"))
    assert sum(len(record.dropped) for *_, record, _ in played) > 0
    assert all(record.cells_below_threshold == 0 for *_, record, _ in played)


@pytest.mark.parametrize(
    "more",
    [
        ['learning.uplink=["ternary"]', "life.ue_failure=0.1", "life.leave=0.05"],
        ['learning.uplink=[{name="random-k", share=0.1}, {name="rounding", bits=4}]', "training.clock=event"],
        ["learning.uplink=auto", "network.downlink=charged", "planning.planner=fastest"],
    ],
)
def test_a_run_that_goes_on_from_a_checkpoint_has_the_same_bits(more, tmp_path):
    made = simulation(SECURE, "training.rounds=6", *more)
    whole = train(made.start, made.parts, made.settings, lambda state, record: True)
    half = train(made.start, made.parts, made.settings, lambda state, record: state.round < 3)
    assert half.edge_rules["now"]
    save_checkpoint(tmp_path, half, fingerprint="x")
    resumed = train(load_latest(tmp_path, fingerprint="x").state, made.parts, made.settings, lambda state, record: True)
    assert torch.equal(whole.params, resumed.params)
    for edge, rule in whole.edge_rules["now"].items():
        assert torch.equal(rule["scales"], torch.as_tensor(resumed.edge_rules["now"][edge]["scales"]))


def test_memory_changes_nothing_about_a_sum():
    wide, tight = simulation(SECURE), simulation(SECURE)
    learners = tight.parts.executor.learners
    few = replace(learners.settings, memory_gb=2 * 4 * tight.start.params.numel() / 1e9)
    tight = replace(
        tight,
        parts=replace(tight.parts, executor=replace(tight.parts.executor, learners=replace(learners, settings=few))),
    )
    one, other = (rounds_of(made, 1)[0][1] for made in (wide, tight))
    assert float((one.pending - other.pending).abs().max()) <= 32 / (2**24 - 1)


def test_hostile_ues_send_words_like_others():
    made = simulation(SECURE, "hostile.attack=sign-flip", "hostile.ues=[0, 1]")
    _state, _, _outcome, _, _ = rounds_of(made, 1)[0]
    honest = rounds_of(simulation(SECURE), 1)[0][1].pending
    came = rounds_of(made, 1)[0][1].pending
    assert not torch.allclose(honest[0], came[0], atol=1e-4)
    assert torch.allclose(honest[1:], came[1:], atol=4e-6)


def test_scaffold_and_private_heads_sum_what_travels_of_them():
    for method in ("scaffold", "fedper"):
        made = simulation(SECURE, f"learning.method={method}")
        plain = simulation(f"learning.method={method}")
        fixed, floats = (rounds_of(one, 1)[0][1].pending for one in (made, plain))
        assert float((fixed - floats).abs().max()) < 4e-6
        assert made.parts.executor.learners.settings.cell.length * 27 == made.parts.executor.load.ue_bits


def test_levels_of_24_bits_change_an_update_by_less_than_a_millionth_of_the_range():
    fixed, floats = (rounds_of(simulation(*more), 1)[0][1].pending for more in ([SECURE], []))
    assert 0 < float((fixed - floats).abs().max()) < 16e-6


REFUSED = [
    (["training.edge_combine=median"], "an edge sees sums only"),
    (['learning.uplink=["top-k"]'], 'has "top-k": every UE chooses places of its own'),
    (['learning.uplink=["rounding", "ternary"]'], "has the codecs rounding, ternary; sums can be read of random-k"),
    (["learning.method=local"], "which sends nothing"),
    (["life.speed_m_per_s=[1.0, 2.0]"], "lets UEs walk to other cells"),
    (["network.ues_per_edge=[5, 1, 4]"], "gives an edge 1 UE, whose update would be the sum"),
    (["network.ues_per_edge=[5, 1025, 4]"], "gives an edge 1025 UEs, .* wanted at most 1024"),
    (["life.sample_fraction=0.6"], r"draws 3 of the 5 UEs of edge 0; wanted at least 4"),
    (["life.sample_count=3"], "life.sample_count = 3 draws 3 of the 5"),
    (["secure.first_scale=17.0"], "secure.first_scale is 17; wanted at most secure.range, 16"),
]


@pytest.mark.parametrize(
    ("more", "said"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_what_masks_leave_nothing_of_is_refused_by_name(more, said):
    with pytest.raises(ConfigError, match=said):
        configured(SECURE, *more)
    if "secure" not in more[0]:
        configured(*more)  # and nothing is said without masks


def test_words_that_are_too_long_are_refused_before_the_run():
    wide = ["secure.bits=32", "training.weighting=samples", "data.samples_per_ue=1e9"]
    with pytest.raises(ConfigError, match=r"weight of up to 6000000000 .* take words of 65 bits.*lower secure.bits"):
        sketch_sum_of(resolve(configured(SECURE, *wide)), 8, 1.0)


def test_a_run_without_masks_has_the_fingerprint_it_had():
    assert fingerprint(configured()) == fingerprint(configured("secure.aggregation=none"))
    assert fingerprint(configured(SECURE)) != fingerprint(configured())
    assert fingerprint(configured(SECURE, "secure.bits=20")) != fingerprint(configured(SECURE))


def test_bits_of_sums_that_nobody_forms_are_said_to_change_nothing():
    said = hpfl.config.idle_settings(configured("secure.bits=20"))
    assert said == ('secure.bits = 20 changes nothing: secure.aggregation is "none"',)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=60), st.integers(1, 12))
def test_updates_are_summed_in_pieces_of_whole_cells_where_these_fit(edges, most):
    edge_of = np.array(edges)
    pieces = list(_pieces(edge_of, most))
    assert sorted(np.concatenate(pieces).tolist()) == list(range(len(edges)))
    assert all(1 <= len(piece) <= most for piece in pieces)
    for edge, count in zip(*np.unique(edge_of, return_counts=True), strict=True):
        assert count > most or sum(edge in edge_of[piece] for piece in pieces) == 1
