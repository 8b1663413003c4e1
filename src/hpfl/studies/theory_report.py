"""What the findings along a run come to: a row per round, and one summary that says what it rests on."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.config import Experiment
from hpfl.studies import theory_bounds as bounds
from hpfl.studies.theory import Findings

BOUNDS = {
    "printed": "Theorem 1, printed",
    "corrected": "corrected, lemmas' constants",
    "corrected_measured": "corrected, measured constants",
    "smoothness": "Lemma 1 alone",
}
"""The bounds drawn against the loss change, by name."""

CAVEAT = (
    "every constant is the largest seen at the points estimated, found from below: a lower bound of what the paper "
    "assumes for all parameters"
)


def lemmas(findings: Findings) -> dict[str, float]:
    """`L_F` and `gamma_F`: printed, put right (for any alpha), and measured along the run."""
    constants, alpha = findings.constants, findings.recorded.config.learning.inner_lr
    return {
        "printed_L_F": bounds.printed_smoothness(constants, alpha),
        "L_F": bounds.meta_smoothness(constants, alpha),
        "measured_L_F": float(findings.meta_secant.max()),
        "printed_gamma_F": bounds.printed_diversity(constants, alpha),
        "gamma_F": bounds.meta_diversity(constants, alpha),
        "measured_gamma_F": float(np.sqrt(findings.deviation_sq.max())),
        "measured_gamma_F_of_ues": max(estimate.meta_diversity for estimate in findings.estimates),
        "measured_gamma_F_within_an_edge": max(estimate.edge_diversity for estimate in findings.estimates),
    }


def bound_columns(findings: Findings) -> dict[str, FloatArray]:
    """Every bound in every round."""
    course, of = findings.course, lemmas(findings)
    bound = findings.recorded.staleness_bound
    measured = {"l_f": of["measured_L_F"], "gamma_f": of["measured_gamma_F"]}
    return {
        "printed": bounds.printed_bound(course, staleness_bound=bound, gamma_f=of["printed_gamma_F"]),
        "corrected": bounds.corrected_bound(course, l_f=of["L_F"], gamma_f=of["gamma_F"]),
        "corrected_measured": bounds.corrected_bound(course, **measured),
        "smoothness": bounds.smoothness_bound(course, of["L_F"]),
    }


def table(findings: Findings) -> dict[str, Any]:
    """The columns of `theory.csv`: one row per round, counted from 1."""
    course, of = findings.course, lemmas(findings)
    stale = findings.recorded.staleness_bound
    return {
        "round": np.arange(1, findings.rounds + 1),
        "loss_before": course.loss[:-1],
        "loss_after": course.loss[1:],
        "loss_change": course.change,
        **{f"{name}_bound": values for name, values in bound_columns(findings).items()},
        "outer_lr": course.outer_lr,
        "num_aggregated": course.aggregated.sum(axis=1),
        "max_staleness": course.staleness.max(axis=1),
        "num_bases": course.num_bases,
        "gradient_norm": np.sqrt(course.gradient_sq[:-1]),
        "direction_norm": np.sqrt(course.direction_sq),
        "cosine": cosines(findings),
        "measured_L_F": findings.meta_secant,
        "measured_gamma_F": np.sqrt(findings.deviation_sq[:-1]),
        "phi": bounds.phi(course, stale),
        "nu": bounds.nu(course, stale, of["printed_gamma_F"]),
    }


def cosines(findings: Findings) -> FloatArray:
    """Cosine of the angle between `grad F(w_t)` and the step taken; the proof of Theorem 1 takes it to be 1."""
    course = findings.course
    lengths = np.sqrt(course.gradient_sq[:-1] * course.direction_sq)
    return np.divide(course.slope, lengths, out=np.full_like(lengths, np.nan), where=lengths > 0)


def summary(findings: Findings) -> dict[str, Any]:
    """The content of `theory.json`."""
    recorded, of = findings.recorded, lemmas(findings)
    learning, change = recorded.config.learning, findings.course.change
    return {
        "run": recorded.folder.resolve().name,
        "rounds": findings.rounds,
        "recorded_rounds": len(recorded.records),
        "completed": findings.rounds == len(recorded.records),
        "replay_identical": findings.first_difference is None,
        "replay_difference": _shown(findings.first_difference),
        "ues_estimated": findings.num_ues,
        "constants": asdict(findings.constants),
        "lemmas": of,
        "premises": {
            "inner_lr_times_L": learning.inner_lr * findings.constants.smoothness,
            "outer_lr_times_L_F": learning.outer_lr * of["L_F"],
            "outer_lr_times_measured_L_F": learning.outer_lr * of["measured_L_F"],
            "largest_outer_lr_allowed": 1 / of["L_F"],
        },
        "loss_change": {
            "lowest": float(change.min()),
            "highest": float(change.max()),
            "rises": int((change > 0).sum()),
        },
        "bounds": {name: _judged(values, change) for name, values in bound_columns(findings).items()},
        "cosine": _lowest_and_mean(cosines(findings)),
        "points": [_point(estimate) for estimate in findings.estimates],
        "departures": departures(recorded.config),
        "caveats": caveats(findings),
    }


def _shown(found: tuple[int, list[str]] | None) -> dict[str, Any] | None:
    return None if found is None else {"round": found[0], "fields": found[1]}


def _lowest_and_mean(values: FloatArray) -> dict[str, float]:
    known = values[np.isfinite(values)]
    return {"lowest": float(known.min()), "mean": float(known.mean())} if known.size else {}


def _judged(bound: FloatArray, change: FloatArray) -> dict[str, float]:
    """In how many rounds a bound held, how far it lay above the loss change, and in how many it promised a fall."""
    moved = change != 0
    return {
        "held": int((change <= bound).sum()),
        "rounds": len(change),
        "median": float(np.median(bound)),
        "median_over_change": float(np.median(bound[moved] / np.abs(change[moved]))) if moved.any() else np.nan,
        "promised_a_fall": int((bound < 0).sum()),
    }


def _point(estimate: Any) -> Mapping[str, Any]:
    fields = asdict(estimate)
    return {"round": fields.pop("round"), **fields.pop("constants"), **fields}


def departures(config: Experiment) -> list[str]:
    """Where the run does something else than the update rule that Theorem 1 is about."""
    learning, training = config.learning, config.training
    checks = {
        f"method {learning.method}; the theorem is about personalised gradients": learning.method != "per-fedavg",
        "updates pass through an uplink's steps; the theorem takes them as they are": bool(learning.uplink),
        f"UEs send {learning.objective} directions, not exact gradients": learning.objective != "exact"
        and learning.inner_lr > 0,
        f"{learning.inner_steps} inner steps; the lemmas are about one": learning.inner_steps > 1
        and learning.inner_lr > 0,
        f"{learning.local_steps} local steps; the theorem is about one": learning.local_steps > 1,
        f"mini-batches of {learning.batch_size}; the theorem is about full batches": learning.batch_size > 0,
        f"{training.edge_rounds} edge rounds; the theorem is about one": training.edge_rounds > 1,
        "means weigh by samples; the theorem weighs alike": training.weighting == "samples",
        "stale updates are discounted; the theorem takes them whole": training.staleness_discount > 0,
        f"combine {training.combine}; the theorem is about the mean": training.combine != "mean",
        f"edges combine by {training.edge_combine}; the theorem is about the mean": training.edge_combine != "mean",
        "UEs come, go or are sampled; the theorem has all of them in every edge round": config.life.on,
    }
    return [text for text, holds in checks.items() if holds]


def caveats(findings: Findings) -> list[str]:
    """What the figures rest on."""
    alpha_l = findings.recorded.config.learning.inner_lr * findings.constants.smoothness
    beta_l = findings.recorded.config.learning.outer_lr * lemmas(findings)["L_F"]
    tail = max(estimate.hessian_tail for estimate in findings.estimates)
    checks = {
        CAVEAT: True,
        f"alpha L is {alpha_l:.2g}: Lemmas 1 and 2 as printed need at most 1": alpha_l > 1,
        f"beta L_F is {beta_l:.3g}: Theorem 1 wants 1, its corrected form takes any": abs(beta_l - 1) > 0.01,
        "the model has kinks (ReLU, max pooling): Assumptions 2 and 3 fail there, and the Hessian's rate of change "
        "depends on the length of the step": findings.kinks,
        f"gamma_H is sure to about {tail:.2g}: the mean Hessian is cut down to its leading eigenpairs": tail > 0,
    }
    return [text for text, holds in checks.items() if holds]
