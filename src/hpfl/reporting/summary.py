"""What a run comes to: final and best values, the way to a target, and the machinery it ran on."""

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from hpfl.arrays import FloatArray
from hpfl.config import Experiment
from hpfl.learning import DEFAULT_METRICS, BoundMetric
from hpfl.reporting.targets import SUCCESSIVE, Reached, Row, Target, configured
from hpfl.training.evaluation_summary import HELD_OUT, summary_columns
from hpfl.training.record import RoundRecord

LOSSES = ("meta_loss", "loss", "personalised_test_loss", "test_loss")
ACCURACIES = ("personalised_accuracy", "global_accuracy", "personalised_accuracy_p10")
_FIRST_OF_UES = ("personalised_accuracy", "global_accuracy", "meta_loss", "loss")
_COLLAPSE = 0.1
_TENTH = 0.1


def rows(records: Sequence[RoundRecord | Row]) -> list[Row]:
    """Records as the plain objects of `rounds.jsonl`, whichever of the two they are."""
    return [record.to_json() if isinstance(record, RoundRecord) else record for record in records]


def evaluations(records: Sequence[RoundRecord | Row], metric: str) -> list[Row]:
    """The rows in which `metric` was evaluated."""
    return [row for row in rows(records) if row.get(metric) is not None]


def time_to_target(records: Sequence[RoundRecord | Row], target: float) -> Reached | None:
    """The first of three successive evaluations at or above an accuracy; None if there are no such three."""
    return Target(target).reached(rows(records))


def diverged(records: Sequence[RoundRecord | Row]) -> bool:
    """Whether a run lost ten points of its best accuracy, or more than all it had learned, for good.

    That is: in each of the last three evaluations personalised accuracy is more than 0.1 below its best, or the loss
    above its first.
    """
    accuracy, loss = (
        [row[metric] for row in evaluations(records, metric)] for metric in ("personalised_accuracy", "meta_loss")
    )
    fallen = bool(accuracy) and max(accuracy[-SUCCESSIVE:]) < max(accuracy) - _COLLAPSE
    return fallen or (bool(loss) and min(loss[-SUCCESSIVE:]) > loss[0])


def summarise(
    records: Sequence[RoundRecord | Row], *, target: Target | None, metrics: Sequence[BoundMetric] = DEFAULT_METRICS
) -> dict[str, Any]:
    """Everything that the records say about a whole run, flat, with units in names; null where nothing is known."""
    table, bests = rows(records), _best_of(metrics)
    newcomers = [name for name in (table[-1] if table else {}) if name.startswith(HELD_OUT)]
    columns = dict.fromkeys((*LOSSES, *ACCURACIES, *summary_columns(metrics), *newcomers))
    bests |= {name: bests[name.removeprefix(HELD_OUT)] for name in newcomers if name.removeprefix(HELD_OUT) in bests}
    return {
        "rounds": len(table),
        "time_s": table[-1]["time_s"] if table else 0.0,
        **{f"final_{name}": _final(table, name) for name in columns},
        **{f"best_{name}": _best(table, name, bests[name]) for name in columns if name in bests},
        "best_round": best_round(table),
        "mean_latency_s": _mean(table, "latency_s"),
        "median_latency_s": _median(table, "latency_s"),
        "mean_scheduled": _mean(table, "num_scheduled"),
        "diverged": diverged(table),
        "max_staleness": max((row["max_staleness"] for row in table), default=None),
        "energy_j": total(table, "energy_j"),
        "uplink_bits": total(table, "uplink_bits"),
        "downlink_bits": total(table, "downlink_bits"),
        "planning_s": total(table, "planning_s"),
        "target_accuracy": target.value if target and not target.is_loss else None,
        "target_loss": target.value if target and target.is_loss else None,
        **to_target(table, target),
    }


def best_round(table: Sequence[Row]) -> int | None:
    """The first round with the best personalised accuracy; where there is none, with the least personal test loss."""
    for name, sign in (("personalised_accuracy", 1), ("personalised_test_loss", -1)):
        known = [(sign * row[name], -row["round"]) for row in evaluations(table, name)]
        if known:
            return int(-max(known)[1])
    return None


def run_summary(
    config: Experiment,
    records: Sequence[RoundRecord | Row],
    *,
    completed: bool,
    num_parameters: int,
    metrics: Sequence[BoundMetric] = DEFAULT_METRICS,
) -> dict[str, Any]:
    """What records and configuration say about a run, simulated or real."""
    return {
        "completed": completed,
        **summarise(records, target=configured(config.evaluation), metrics=metrics),
        "planner": config.planning.planner,
        "dataset": config.data.dataset,
        "seed": config.training.seed,
        "num_edges": config.network.edges,
        "num_ues": config.network.num_ues,
        "num_parameters": num_parameters,
    }


def total(table: Sequence[Row], name: str) -> float | None:
    """Sum over rounds; unknown as soon as one round's value is."""
    values = [row.get(name) for row in table]
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def environment(*, device: str = "cpu") -> dict[str, Any]:
    """Versions and kind of machine, on which rounding may depend; nothing that names a host, a person or a folder."""
    return {
        "hpfl": version_of("hpfl"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": version_of("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": _device_name(device),
        "threads": torch.get_num_threads(),
    }


def spread_over_ues(ues: Mapping[str, Any], name: str = "personalised_accuracy") -> dict[str, float | None]:
    """How a figure differs between the UEs at the end: its standard deviation, and the mean of the worst tenth.

    UEs that never trained are left out; null where the figure is not known of anybody.
    """
    values = np.asarray(ues.get(name, ()), dtype=np.float64)
    trained = ~np.asarray(ues.get("held_out", np.zeros(len(values))), dtype=np.bool_)
    known = np.sort(values[trained & ~np.isnan(values)])
    worst = known[: max(math.ceil(_TENTH * len(known)), 1)]
    return {
        f"final_{name}_std": float(known.std()) if known.size else None,
        f"final_{name}_worst_tenth": float(worst.mean()) if known.size else None,
    }


def ue_figures(evaluation: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """All figures of UEs in the order of `ues.csv`: accuracies, losses, and whatever else is measured."""
    order = dict.fromkeys((*_FIRST_OF_UES, *evaluation))
    return {name: evaluation[name] for name in order if name in evaluation}


def _best_of(metrics: Sequence[BoundMetric]) -> dict[str, Callable[..., Any]]:
    """What chooses the best value of each column; of a metric that says not which tail is bad, none is the best."""
    choices: dict[str, Callable[..., Any]] = dict.fromkeys(LOSSES, min) | dict.fromkeys(ACCURACIES, max)
    for metric in metrics:
        if metric.tail is not None:
            choices |= dict.fromkeys((*metric.columns, metric.tail[0]), max if metric.worst == "low" else min)
    return choices


def _final(table: Sequence[Row], name: str) -> Any:
    measured = evaluations(table, name)[-1:]
    return measured[0][name] if measured else None


def _best(table: Sequence[Row], name: str, choose: Callable[..., Any]) -> Any:
    return choose((row[name] for row in evaluations(table, name)), default=None)


def to_target(table: Sequence[Row], target: Target | None) -> dict[str, Any]:
    """What it took a run to reach the target: seconds, rounds, joules and bits; null where it did not, or has none."""
    reached = None if target is None else target.reached(table)
    way = table[: reached.round] if reached else []
    return {
        "time_to_target_s": reached.time_s if reached else None,
        "rounds_to_target": reached.round if reached else None,
        "energy_to_target_j": total(way, "energy_j") if reached else None,
        "uplink_bits_to_target": total(way, "uplink_bits") if reached else None,
        "downlink_bits_to_target": total(way, "downlink_bits") if reached else None,
    }


def _mean(table: Sequence[Row], name: str) -> float | None:
    return statistics.fmean(row[name] for row in table) if table else None


def _median(table: Sequence[Row], name: str) -> float | None:
    return statistics.median(row[name] for row in table) if table else None


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def version_of(package: str) -> str:
    """The version of a package that is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
