"""Study `robust`: every combine rule against every attack, with one in five UEs of each cell or edges hostile."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from hpfl.attacks.choosing import hostile_edges, hostile_ues, share_of
from hpfl.config import Config, load
from hpfl.experiment import Hooks, run_experiment
from hpfl.learning.models import mlp
from hpfl.rng import Streams
from hpfl.studies import robust_picture
from hpfl.studies.cases import Scale
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, where
from hpfl.sweeps.parts import StudyPart

SHARE, EDGES, UES = 0.2, 5, 10
WHO = {"ues": "training.edge_combine", "edges": "training.combine"}
"""Who is hostile, and the key of the rule that meets them."""
LABELS = (5, 2)
"""Labels a UE has of ten: mild, and hard, where honest updates differ as much as hostile ones."""
NONE, MEAN = "none", "mean"
ATTACKS = ("sign-flip", "scaling", "alie", "ipm", "label-flip", "backdoor")
RULES: Mapping[str, Mapping[str, Any]] = {
    MEAN: {},
    "median": {},
    "trimmed-mean": {"share": SHARE},
    "krum": {"hostile": SHARE},
    "multi-krum": {"hostile": SHARE},
    "geometric-median": {},
    "centred-clipping": {"tau": 0.0, "iterations": 3},
    "norm-bounding": {},
}
"""Each told that one in five may be hostile, where it asks; radius and bound follow the round's median."""
BAR = 0.03
"""What the best rule may lose against the clean run."""
_KEYS = ("labels_per_ue", "who", "attack", "rule")
_SMALL = (
    f"network.edges={EDGES}",
    f"network.ues_per_edge={UES}",
    "planning.planner=full",
    "data.samples_per_ue=[20.0, 60.0]",
    "learning.model=hpfl.studies.robust:narrow",
    "learning.outer_lr=0.5",
    "training.rounds=60",
    "evaluation.every=60",
)
"""Small enough for hundreds of runs on two cores; the step is larger, so that few rounds suffice."""


def narrow(input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """A dense network with 20 hidden units, a fifth of the paper's."""
    return mlp(input_shape, num_outputs, hidden=(20,))


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """All rules, clean and attacked, seed after seed, the mild case first."""
    attacks = (NONE, *ATTACKS)
    return [
        _part(scale, seed, labels, who, attack, rule)
        for labels in LABELS
        for seed in seeds
        for who in WHO
        for attack in attacks
        for rule in RULES
    ]


def _part(scale: Scale, seed: int, labels: int, who: str, attack: str, rule: str) -> StudyPart:
    key = WHO[who]
    hostile = [] if attack == NONE else [f"hostile.attack={attack}", f"hostile.{who}={SHARE}"]
    members = UES if who == "ues" else EDGES
    told = {name: share_of(members, value) if name == "hostile" else value for name, value in RULES[rule].items()}
    options = [f"{key}_options.{name}={value}" for name, value in told.items()]
    about = [f"training.seed={seed}", f"data.labels_per_ue={labels}", f"{key}={rule}"]
    config = load(scale.setups["mnist"].preset, overrides=[*_SMALL, *about, *options, *hostile])
    return StudyPart(
        name=f"robust/{config.data.dataset}/l-{labels}/{who}/{attack}/{rule}/seed-{seed}",
        labels={**dict(zip(_KEYS, (labels, who, attack, rule), strict=True)), "seed": seed},
        config=config,
        probe=honest_and_hostile,
    )


def honest_and_hostile(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """A run of seconds, which is not written down while it lasts; the accuracy of every UE at its end."""
    found = run_experiment(config, figures=False, device=device, data_dir=data_dir, hooks=hooks)
    accuracies = found.ues["personalised_accuracy"]
    return {"ues": {"personalised_accuracy": [round(float(value), 5) for value in accuracies]}}


def tables(found: Sequence[Found]) -> Tables:
    """`losses` beside the clean run, `best` rule by attack, `means` over seeds of `runs`."""
    runs = [_run(part) for part in found]
    means = bands(runs, _KEYS, ("accuracy", "backdoor_success"))
    return {"best": _best(means), "losses": _losses(means), "means": means, "runs": runs}


def _run(part: Found) -> TableRow:
    """Accuracy of the honest UEs; that of a run which diverged is 0."""
    labels = part["labels"]
    honest = ~hostile_members(labels["who"], labels["seed"])
    accuracies = None if part["ues"] is None else np.array(part["ues"]["personalised_accuracy"], dtype=np.float64)
    success = [value for value in part["rounds"]["backdoor_success"] if value is not None]
    return {
        **{key: labels[key] for key in (*_KEYS, "seed")},
        "accuracy": 0.0 if accuracies is None else float(np.nanmean(accuracies[honest])),
        "backdoor_success": success[-1] if success else None,
    }


def hostile_members(who: str, seed: int) -> Any:
    """The UEs that are hostile, or sit under a hostile edge, as a run of this seed draws them."""
    counts, streams = np.full(EDGES, UES), Streams(seed)
    return hostile_ues(SHARE, counts, streams) if who == "ues" else np.repeat(hostile_edges(SHARE, EDGES, streams), UES)


def _losses(means: Rows) -> Rows:
    """One row per case and rule: accuracy without an attack, and under each."""
    rows = []
    for case in _cases(means):
        for rule in RULES:
            own = {row["attack"]: row["accuracy"] for row in where(means, rule=rule, **case)}
            if own:
                rows.append({**case, "rule": rule, **{attack: own.get(attack) for attack in (NONE, *ATTACKS)}})
    return rows


def _best(means: Rows) -> Rows:
    """One row per case and attack: the clean mean, the attacked mean, and the rule that keeps most."""
    rows = []
    for case in _cases(means):
        clean = next((row["accuracy"] for row in where(means, attack=NONE, rule=MEAN, **case)), None)
        for attack in ATTACKS:
            own = {row["rule"]: row["accuracy"] for row in where(means, attack=attack, **case)}
            if clean is not None and MEAN in own:
                best = max(own, key=lambda rule: own[rule])
                kept = {"best_rule": best, "best_accuracy": own[best], "points_lost": 100 * (clean - own[best])}
                rows.append({**case, "attack": attack, "clean_mean": clean, "attacked_mean": own[MEAN], **kept})
    return rows


def _cases(means: Rows) -> list[dict[str, Any]]:
    return [{"labels_per_ue": labels, "who": who} for labels in LABELS for who in WHO if where(means, who=who)]


def notes(made: Tables) -> list[str]:
    """Which rule loses least under its worst attack, for each case; and where no rule stays within the bar."""
    lines = []
    for case in _cases(made["means"]):
        whole = [row for row in where(made["losses"], **case) if None not in row.values()]
        clean = next((row[NONE] for row in whole if row["rule"] == MEAN), None)
        if clean is None:
            continue
        worst = {row["rule"]: min(row[attack] for attack in ATTACKS) for row in whole}
        best = max(worst, key=lambda rule: worst[rule])
        lost = [row["attack"] for row in where(made["best"], **case) if row["points_lost"] > 100 * BAR]
        beyond = f"no rule stays within {100 * BAR:.0f} points under {', '.join(lost)}" if lost else "each has a rule"
        lines.append(
            f"Hostile {case['who']}, l = {case['labels_per_ue']}: `{best}` keeps {100 * worst[best]:.1f} % under its "
            f"worst attack, the mean {100 * worst[MEAN]:.1f} %; without an attack the mean has {100 * clean:.1f} %. "
            f"Attack by attack, {beyond}."
        )
    return lines


STUDY = Study(
    name="robust",
    title="Combine rules against attacks",
    about="One in five UEs of each cell, or one in five edges, is hostile from the first round. Figures are the "
    "personalised accuracy of the honest UEs. 5 edges with 10 UEs of 20 to 60 samples, all edges in every round, 60 "
    "rounds with outer step 0.5, a dense model with 20 hidden units: small, so that all rules can meet all attacks.",
    parts=parts,
    tables=tables,
    draw=lambda made, folder: robust_picture.draw(made["losses"], folder, (NONE, *ATTACKS), MEAN),
    shown=("losses", "best"),
    notes=notes,
)
