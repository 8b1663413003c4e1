"""Coded uploads in the simulator: UEs and edges code when they upload, and keep what did not arrive until delivery."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hpfl
from hpfl.config import ConfigError
from hpfl.data.sources import load_dataset
from hpfl.learning import Draws
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.edge_round import draw_key
from hpfl.training.loop import play_round, train

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=5",
    "data.samples_per_ue=[5, 20]",
    "learning.model=ue_and_rule_parts:narrow",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.planner=random",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=6",
]
FEEDBACK = 'learning.uplink=[{name="top-k", share=0.1}, "ternary"]'
LOSSES = ["training.clock=event", "life.ue_failure=0.2", "life.leave=0.1", "life.sample_fraction=0.8"]


def simulation(*overrides):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])
    return build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def arrivals_of(made, state):
    """What arrives in a round, with what was observed and planned before."""
    seen, outcomes = {}, []

    class Watched:
        def __getattr__(self, name):
            return getattr(made.parts.executor, name)

        def execute(self, state, observation, plan):
            outcomes.append(made.parts.executor.execute(state, observation, plan))
            seen.update(observation=observation, plan=plan)
            return outcomes[-1]

    after, record = play_round(state, replace(made.parts, executor=Watched()), made.settings)
    return after, record, outcomes[-1], seen["observation"]


def by_hand(made, state, edge, chain, *, backhaul=True):
    """An edge's update as the cloud decodes it, with the errors of UEs and edge, from uncoded updates."""
    executor, base = made.parts.executor, int(state.base_round[edge])
    ues = np.flatnonzero(made.fleet.edge_of_ue == edge)
    groups = np.zeros(len(ues), dtype=np.int64)
    asked = {"ues": ues, "groups": groups, "num_groups": 1, "streams": made.parts.streams, "key": draw_key(base, 0)}
    rows = executor.learners.cohort.updates(state.params, **asked, keep_per_ue=True).per_ue
    keeps = chain.numbers_kept(rows.shape[1])
    errors = state.kept["codec"][ues] if keeps else rows[:, :0]
    draws = Draws(made.parts.streams, draw_key(base, 0), ues, rows.device, "codec/ue")
    arrived, errors = chain.send(rows, errors, draws)
    mean = arrived.mean(0, keepdim=True)
    if not backhaul:
        return mean[0], errors, None
    own = state.kept["edge_codec"][[edge]] if keeps else mean[:, :0]
    draws = Draws(made.parts.streams, base, np.array([edge]), rows.device, "codec/edge")
    decoded, left = chain.send(mean, own, draws)
    return decoded[0], errors, left[0]


@pytest.mark.parametrize("uplink", ['["ternary"]', '[{name="rounding", bits=4}]', '[{name="top-k", share=0.1}]'])
def test_what_arrives_is_coded_by_each_ue_and_again_by_the_edge(uplink):
    made = simulation(f"learning.uplink={uplink}")
    chain = made.parts.executor.learners.codings[0]
    after, _, outcome, seen = arrivals_of(made, made.start)
    for one in outcome.arrivals:
        wanted, errors, left = by_hand(made, made.start, one.member, chain)
        close = (one.update - wanted).abs() <= 1e-6
        assert float(close.double().mean()) > 0.995  # a mean's last bit may tip a number of the second coding
        assert not torch.allclose(one.update, seen.pending[one.member])
        assert one.importance == seen.importance[one.member]
        if "top-k" in uplink:
            ues = np.flatnonzero(made.fleet.edge_of_ue == one.member)
            torch.testing.assert_close(after.kept["codec"][ues], errors, rtol=1e-5, atol=1e-6)
            assert float((after.kept["edge_codec"][one.member] - left).abs().median()) <= 1e-6
    if "top-k" in uplink:
        others = np.setdiff1d(np.arange(4), [one.member for one in outcome.arrivals])
        assert not after.kept["edge_codec"][others].any()
        assert not after.kept["codec"][np.isin(made.fleet.edge_of_ue, others)].any()


def test_errors_change_only_with_delivery():
    made = simulation(FEEDBACK, "life.edge_failure=0.5", "life.ue_failure=0.2", "training.seed=3")
    state, failed = made.start, 0
    for _ in range(6):
        before = state
        state, record, outcome, seen = arrivals_of(made, state)
        came = [one.member for one in outcome.arrivals]
        failed += record.num_scheduled - len(came)
        moved = (state.kept["edge_codec"] != before.kept["edge_codec"]).any(1).numpy()
        assert set(np.flatnonzero(moved)) == set(came)
        changed = np.flatnonzero((state.kept["codec"] != before.kept["codec"]).any(1).numpy())
        under = dict(zip(seen.links.members.tolist(), seen.links.edge_of_ue.tolist(), strict=True))
        assert {under[ue] for ue in changed.tolist()} == set(came)
        assert len(changed) <= sum(edge in came for edge in under.values())
    assert failed


def test_a_coded_run_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path):
    life = [*LOSSES, "training.edge_rounds=2", "training.weighting=samples", "training.rounds=4"]
    both = [FEEDBACK, *life, "learning.method=ue_and_rule_parts:PrivateHead"]

    def watch(state, record):
        if state.round == 2:
            save_checkpoint(tmp_path, state, fingerprint="f")
        return True

    def trained(state=None, watch=lambda state, record: True):
        made = simulation(*both)
        return train(state or made.start, made.parts, made.settings, watch)

    whole, found = trained(watch=watch), load_latest(tmp_path, fingerprint="f").state
    assert found is not None
    assert {"codec", "edge_codec", "method", "method_before"} <= set(found.kept)
    resumed = trained(found)
    assert torch.equal(resumed.params, whole.params)
    assert all(torch.equal(resumed.kept[name], whole.kept[name]) for name in whole.kept)


def test_both_hops_take_the_bits_of_the_chain_and_a_lone_server_codes_once():
    made = simulation('learning.uplink=["ternary"]', "planning.planner=full")
    numbers = made.start.params.numel()
    chain = made.parts.executor.learners.codings[0]
    _, record, _, _ = arrivals_of(made, made.start)
    assert record.uplink_bits == (20 + 4) * chain.bits(numbers, 32)
    alone = simulation(
        'learning.uplink=["ternary"]', "network.edges=1", "network.backhaul=false", "planning.max_edges=1"
    )
    _, record, outcome, _ = arrivals_of(alone, alone.start)
    assert record.uplink_bits == 5 * chain.bits(numbers, 32)
    wanted, _, _ = by_hand(alone, alone.start, 0, chain, backhaul=False)
    torch.testing.assert_close(outcome.arrivals[0].update, wanted, rtol=1e-5, atol=1e-7)


def test_finer_codes_come_closer_to_the_plain_run():
    def model(uplink):
        made = simulation(f"learning.uplink={uplink}")
        return train(made.start, made.parts, made.settings, lambda state, record: True).params

    plain = model("[]")
    coarse, fine = (model(f'[{{name="rounding", bits={bits}}}]') for bits in (4, 8))
    assert 0 < float((fine - plain).norm()) < 0.3 * float((coarse - plain).norm())


@pytest.mark.parametrize(
    ("uplink", "said"),
    [
        ('["ternary", "ue_and_rule_parts:Coarse"]', "'ue_and_rule_parts:Coarse' behind the codec 'ternary'"),
        ('[{name="top-k", k=1000000}]', "k = 1000000"),
        ('[{name="top-k", share=0}]', "greater than 0"),
        ('[{name="rounding", bits=1}]', "2, 4 or 8"),
        ('[{name="ternary", bucket=0}]', "greater than or equal to 1"),
        ('["ternary", "rounding"]', "'rounding' is given no numbers"),
    ],
)
def test_codecs_that_cannot_be_are_refused_before_any_work(uplink, said):
    with pytest.raises(ConfigError, match=said):
        simulation(f"learning.uplink={uplink}")


@pytest.mark.parametrize("system", ["fl", "hfl", "pfl", "shpfl"])
def test_every_system_takes_codecs(system):
    config = hpfl.load("quickstart-paper", system=system, overrides=[*SMALL[1:7], "training.rounds=2", FEEDBACK])
    made = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)
    state = train(made.start, made.parts, made.settings, lambda state, record: True)
    assert state.kept["codec"].any()
    assert bool(state.kept["edge_codec"].any()) == config.network.backhaul
