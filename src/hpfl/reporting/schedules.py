"""Who was called: which configurations called the same edges, in every round or nearly so."""

from collections.abc import Sequence
from itertools import combinations

from hpfl.reporting.groups import Group, listed

NEARLY = 0.9
"""Of fewer of their rounds than this it is not said that two groups chose alike."""


def same_edges(groups: Sequence[Group]) -> list[str]:
    """A sentence for all groups that chose the same edges, seed by seed, in every round, and one if in nearly all."""
    alike: list[list[Group]] = []
    for group in groups:
        joined = next((those for those in alike if _share([*those, group]) == 1), None)
        if joined is None:
            alike.append([group])
        else:
            joined.append(group)
    pairs = [[*pair] for pair in combinations((those[0] for those in alike), 2)]
    nearly = [pair for pair in pairs if NEARLY <= _share(pair) < 1]
    return [_sentence(those) for those in alike if len(those) > 1] + [_sentence(pair) for pair in nearly]


def _calls(groups: Sequence[Group]) -> list[set[frozenset[int]]]:
    """The sets of edges that were called in every round of the seeds that all groups have, as far as all go."""
    seeds = [seed for seed in groups[0].by_seed if all(seed in group.by_seed for group in groups)]
    each = [zip(*(group.by_seed[seed].calls for group in groups), strict=False) for seed in seeds]
    return [set(calls) for rounds in each for calls in rounds]


def _share(groups: Sequence[Group]) -> float:
    """In what share of several rounds all called the same edges; 0 where all are called all the time: no choice."""
    found, num_edges = _calls(groups), max(group.runs[0].num_edges for group in groups)
    if len(found) < 2 or all(len(edges) == num_edges for calls in found for edges in calls):
        return 0.0
    return sum(len(calls) == 1 for calls in found) / len(found)


def _sentence(groups: Sequence[Group]) -> str:
    names, found = [group.label for group in groups], _calls(groups)
    same = sum(len(calls) == 1 for calls in found)
    rounds = f"all {same} rounds" if same == len(found) else f"{same} of {len(found)} rounds"
    whole = all(sum(len(view.rows) for view in group.runs) == len(found) for group in groups)
    common = "" if whole else " that they have in common"
    seeds = set.intersection(*(set(group.by_seed) for group in groups))
    of_seeds = f", {len(seeds)} seeds together" if len(seeds) > 1 else ""
    return f"{listed(names)} chose the same edges in {rounds}{common}{of_seeds}."
