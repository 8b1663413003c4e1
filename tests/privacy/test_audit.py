"""Attacks on what leaves a cell: an auditor's bound stays below the stated epsilon, and near it where that is tight."""

import numpy as np
import pytest
import torch
from auditing import auc, epsilon_lower_bound

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.learning.coding import Coding
from hpfl.privacy import Accountant
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.edge_round import Participants, edge_updates

DELTA, EDGES, UES, CLIP = 1e-5, 40, 2, 0.02
SMALL = [
    f"network.edges={EDGES}",
    f"network.ues_per_edge={UES}",
    "data.samples_per_ue=[8, 12]",
    "planning.planner=full",
    "privacy.mechanism=gaussian",
    f"privacy.clip_norm={CLIP}",
]


class OneLayer(torch.nn.Sequential):
    def __init__(self, num_outputs):
        super().__init__(torch.nn.AvgPool2d(7), torch.nn.Flatten(), torch.nn.Linear(16, num_outputs))


def learners(noise, *more):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, f"privacy.noise_multiplier={noise}", *more])
    config.learning.model = OneLayer
    return build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def sums(made, ues, keys):
    """What the edges release of the sums of some UEs' updates, [keys, edges, P]: the mechanism as runs have it."""
    executor, edge_of = made.parts.executor, made.fleet.edge_of_ue[ues]
    who = Participants(ues=ues, edge_of=edge_of, weights=np.ones(len(ues)))
    found = []
    for key in keys:
        result = edge_updates(
            executor.learners.cohort,
            made.start.params,
            who,
            base_round=key,
            settings=executor.learners.settings,
            streams=made.parts.streams,
        )
        found.append(result.update.double() * torch.from_numpy(np.bincount(edge_of))[:, None])
    return torch.stack(found)


def canaries(made):
    """The first UE of each edge, and its clipped update's direction, [edges, P]."""
    ues = np.arange(0, EDGES * UES, UES)
    asked = {"ues": ues, "groups": np.arange(EDGES), "num_groups": EDGES, "streams": made.parts.streams, "key": 0}
    own = made.parts.executor.learners.cohort.updates(
        made.start.params, **asked, coding=Coding(clip=np.full(EDGES, CLIP))
    )
    assert np.all(own.norms > CLIP)
    return ues, own.update.double() / CLIP


@pytest.mark.parametrize(("at", "releases"), [("edge", 1), ("cell", 1), ("edge", 4)])
def test_a_canary_is_found_no_better_than_was_stated_and_nearly_as_well(at, releases):
    noise, trials = releases**0.5, 40
    made = learners(noise, f"privacy.noise_at={at}")
    ues, directions = canaries(made)
    everybody = np.arange(EDGES * UES)
    others = np.setdiff1d(everybody, ues)
    known = clipped_sums(made, others)
    with_it = scores(sums(made, everybody, range(trials * releases)) - known, directions, releases)
    without = scores(sums(made, others, range(10**5, 10**5 + trials * releases)) - known, directions, releases)
    stated, bound = Accountant((noise,), DELTA).epsilon(releases), epsilon_lower_bound(without, with_it, delta=DELTA)
    assert stated / 2 < bound < stated


def clipped_sums(made, ues):
    """Sums without noise, which the auditor is given."""
    groups = made.fleet.edge_of_ue[ues]
    asked = {"ues": ues, "groups": groups, "num_groups": EDGES, "streams": made.parts.streams, "key": 0}
    cohort = made.parts.executor.learners.cohort
    means = cohort.updates(made.start.params, **asked, coding=Coding(clip=np.full(EDGES, CLIP))).update
    return means.double() * torch.from_numpy(np.bincount(groups))[:, None]


def scores(released, directions, releases):
    along = (released * directions).sum(2).view(-1, releases, EDGES).sum(1)
    return along.flatten().numpy()


def test_an_auditor_of_noise_that_is_half_of_what_was_stated_catches_it():
    made = learners(0.6)
    ues, directions = canaries(made)
    others = np.setdiff1d(np.arange(EDGES * UES), ues)
    known = clipped_sums(made, others)
    with_it = scores(sums(made, np.arange(EDGES * UES), range(40)) - known, directions, 1)
    without = scores(sums(made, others, range(10**5, 10**5 + 40)) - known, directions, 1)
    assert epsilon_lower_bound(without, with_it, delta=DELTA) > Accountant((1.2,), DELTA).epsilon(1)


def test_a_member_of_a_cell_is_told_from_others_without_noise_and_not_with_it():
    found = {noise: membership(noise, rounds=4) for noise in (0.0, 20.0)}
    assert found[0.0] > 0.9
    assert abs(found[20.0] - 0.5) < 0.1


def membership(noise, rounds):
    """AUC of an attacker who compares what an edge releases, less the mean of all edges, with a UE's own update."""
    made, ues = learners(noise), np.arange(EDGES * UES)
    released = sums(made, ues, range(rounds)).mean(0)
    released -= released.mean(0)
    asked = {"ues": ues, "groups": ues, "num_groups": len(ues), "streams": made.parts.streams, "key": 0}
    own = made.parts.executor.learners.cohort.updates(made.start.params, **asked).update.double()
    own = (own - own.mean(0)) / (own - own.mean(0)).norm(dim=1, keepdim=True)
    score, member = (own @ released.T).numpy(), made.fleet.edge_of_ue[:, None] == np.arange(EDGES)
    return auc(score[member], score[~member])
