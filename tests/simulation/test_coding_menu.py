"""The planner chooses the coding: what it is told beforehand is what happens, and its choice is carried out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.learning import Uplink
from hpfl.learning.codecs.menu import MENU, UNCHOSEN
from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.codecs.sparse import Sparse
from hpfl.learning.codecs.top_k import TopK
from hpfl.planning import ProblemError
from hpfl.planning.checking import PlanError, checked_answer
from hpfl.planning.codings import Codings
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.rng import Streams
from hpfl.simulation.learners import Pending
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.cloud_step import pose
from hpfl.training.loop import train
from hpfl.training.remembered import Remembered

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=6",
    "data.samples_per_ue=[5, 20]",
    "learning.model=ue_and_rule_parts:narrow",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.max_edges=4",
]
_TENTH = TopK(Sparse(0.1))
WIDE = (*MENU, Uplink.of([("top-k", _TENTH)]), Uplink.of([("top-k", _TENTH), ("rounding", Rounding(8))]))
"""The menu, and more codings that feed errors back."""
DRAWN = UNCHOSEN + 1  # entries in front that add noise
AUTO = ["learning.uplink=auto", "planning.planner=coding_planners:in_turn"]


@pytest.fixture(autouse=True, scope="module")
def wide():
    """These runs choose from the wide menu."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hpfl.assembly.MENU", WIDE)
        yield


def simulation(*overrides):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *AUTO, *overrides])
    return build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


@pytest.fixture(scope="module")
def seen(wide):
    made = simulation()
    return made, made.parts.executor.observe(made.start)


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_the_noise_that_is_foretold_is_that_of_the_coded_updates(weighting):
    made = simulation(f"training.weighting={weighting}")
    observation = made.parts.executor.observe(made.start)
    pending = Pending(
        update=observation.pending, importance=observation.importance, remembered=Remembered(observation.kept, {})
    )
    here = {"members": observation.links.members, "edge_of": observation.links.edge_of_ue}
    for entry in range(1, DRAWN):
        found = []
        for seed in range(12):
            learners = replace(made.parts.executor.learners, streams=Streams(seed))
            sent = learners.uploaded(
                pending, np.ones(4, bool), observation.clock, **here, base_round=made.start.base_round, coding=entry
            )
            found.append((sent.update - pending.update).double().square().sum(1).numpy())
        np.testing.assert_allclose(observation.codings.noise[:, entry], np.mean(found, axis=0), rtol=0.3)


def test_more_bits_add_less_noise_and_all_of_them_none(seen):
    noise = seen[1].codings.noise
    assert noise.shape == (4, len(WIDE))
    bits = np.array(seen[1].codings.ue_bits[:DRAWN])
    assert (np.diff(bits) < 0).all()
    assert (np.diff(noise[:, :DRAWN], axis=1) > 0).all()
    assert not noise[:, 0].any()
    assert not noise[:, DRAWN:].any()  # what feedback leaves out comes later
    delays = np.array(seen[1].codings.delays)
    assert not delays[:DRAWN].any()
    assert (delays[DRAWN:] > 0).all()


def test_a_codec_that_feeds_errors_back_does_not_frighten_fastest_into_standing_still():
    """What top-k leaves out was once taken for noise, and taken out of what updates say: steps shrank to a 64th."""
    few = '[{name = "top-k", share = 0.02}, {name = "rounding", bits = 8}]'
    changes = [f"learning.uplink={few}", "planning.planner=fastest", "training.rounds=15", "evaluation.every=1"]
    made = simulation(*changes, "network.downlink=charged", "learning.outer_lr=0.3")
    records = []
    train(made.start, made.parts, made.settings, lambda _, record: records.append(record) or True)
    assert min(record.step_scale for record in records) > 0.4
    assert records[-1].meta_loss < 0.8 * records[0].meta_loss


def test_bits_of_the_menu_are_those_of_its_chains(seen):
    made, observation = seen
    chains, numbers = made.parts.executor.learners.codings, made.start.params.numel()
    assert observation.codings.ue_bits == tuple(chain.bits(numbers, 32) for chain in chains)
    assert observation.codings.edge_bits == observation.codings.ue_bits


def test_a_float_for_each_entry_goes_with_every_sketch(seen):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "planning.planner=fastest-v1"])
    plain = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)
    more = seen[1].spent_bits - plain.parts.executor.observe(plain.start).spent_bits
    assert more == (24 + 4) * len(WIDE) * 32


def test_the_coding_of_a_plan_is_carried_out_as_planned():
    made, records = simulation(f"training.rounds={len(WIDE) + 1}"), []
    plans = []

    def planner(problem, memory, stream):
        answer = made.parts.planner(problem, memory, stream)
        plans.append((answer[0], problem))
        return answer

    state = train(
        made.start,
        replace(made.parts, planner=planner),
        made.settings,
        lambda s, record: records.append(record) or True,
    )
    assert [plan.coding for plan, _ in plans] == [*range(len(WIDE)), 0]
    for (plan, problem), record in zip(plans, records, strict=True):
        menu = problem.codings
        sketches = (24 + 4) * (64 + len(WIDE)) * 32
        assert record.uplink_bits - sketches == 24 * menu.ue_bits[plan.coding] + 4 * menu.edge_bits[plan.coding]
        assert record.latency_s - problem.overhead_s == pytest.approx(plan.round_latency_s, rel=1e-9)
    assert state.kept["codec"].any()
    assert state.kept["edge_codec"].any()


def test_a_run_with_a_menu_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path):
    made = simulation("training.rounds=4", "life.ue_failure=0.3")

    def watch(state, record):
        if state.round == 2:
            save_checkpoint(tmp_path, state, fingerprint="f")
        return True

    whole = train(made.start, made.parts, made.settings, watch)
    resumed = train(load_latest(tmp_path, fingerprint="f").state, made.parts, made.settings, lambda *_: True)
    assert torch.equal(whole.params, resumed.params)


def test_a_plan_names_an_entry_that_is_there_and_its_times_are_of_its_bits(seen):
    made, observation = seen
    problem = pose(made.start, observation, made.settings)
    stream = made.parts.streams.at("planning", 0)
    plan, memory = made.parts.planner(problem, {"turn": 2}, stream)
    assert checked_answer((plan, memory), problem, "it")[0].coding == 2
    for wrong in (-1, len(WIDE), None):
        with pytest.raises(PlanError, match=rf"names the coding .*; wanted a whole number from 0 to {len(WIDE) - 1}"):
            checked_answer((replace(plan, coding=wrong), memory), problem, "it")
    with pytest.raises(PlanError):
        checked_answer((replace(plan, coding=1), memory), problem, "it")


def test_a_menu_is_sliced_with_its_problem(seen):
    made, observation = seen
    problem = pose(made.start, observation, made.settings)
    assert np.array_equal(problem.of_edges(np.array([3, 1])).codings.noise, observation.codings.noise[[3, 1]])
    coded = problem.coded(2)
    assert (coded.ue_bits == observation.codings.ue_bits[2]).all()
    with pytest.raises(ProblemError, match="noise of shape"):
        Codings(ue_bits=(1.0,), edge_bits=(1.0,), noise=np.zeros((4, 2)))


@pytest.mark.parametrize("more", ["planning.planner=joint", "training.clock=event"])
def test_a_choice_that_nobody_can_make_is_ternary(more):
    codings = simulation(more).parts.executor.learners.codings
    assert [[name for name, _ in chain.steps] for chain in codings] == [["ternary"]]
