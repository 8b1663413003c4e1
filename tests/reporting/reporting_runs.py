"""Made-up runs for the tests of this folder: records, states and folders of results."""

from pathlib import Path

import numpy as np
import torch

from hpfl.reporting.runs import RunView
from hpfl.reporting.store import RunStore
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState


def record(number: int, **changes: object) -> RoundRecord:
    fields = {
        "round": number,
        "time_s": 2.5 * number,
        "latency_s": 2.5,
        "num_scheduled": 2,
        "scheduled": (number % 3, 3),
        "num_aggregated": 2,
        "max_staleness": 4,
        "mean_staleness": 1.5,
        "importance": 0.1,
        "bandwidth_used_hz": 5e6,
        "uplink_bits": 1e6,
        "energy_j": 0.5,
        "planning_s": 0.001,
        "objective": -1.0,
        "lower_bound": -1.0,
        "relative_gap": 0.0,
    }
    columns = dict.fromkeys(summary_columns())
    measured = {name: changes.pop(name) for name in columns if name in changes}
    return RoundRecord(**(fields | changes), evaluation=columns | measured)  # type: ignore[arg-type]


def evaluated(number: int, accuracy: float, **changes: object) -> RoundRecord:
    metrics = {
        "meta_loss": 1.0 - accuracy,
        "loss": 1.2 - accuracy,
        "personalised_accuracy": accuracy,
        "global_accuracy": accuracy / 2,
        "personalised_accuracy_p10": accuracy / 4,
    }
    return record(number, **(metrics | changes))


def history(accuracies: list[float], *, every: int = 1, latency_s: float = 2.5) -> list[RoundRecord]:
    """Rounds with an evaluation after each `every`th of them."""
    records = []
    for number in range(1, every * len(accuracies) + 1):
        timing = {"time_s": latency_s * number, "latency_s": latency_s}
        due = number % every == 0
        records.append(
            evaluated(number, accuracies[number // every - 1], **timing) if due else record(number, **timing)
        )
    return records


def state(number: int = 10, *, seed: int = 0) -> TrainState:
    rng = np.random.default_rng(seed)
    return TrainState(
        round=number,
        time_s=float(rng.random()) / 3,
        params=torch.from_numpy(rng.standard_normal(7).astype(np.float32)),
        pending=torch.from_numpy(rng.standard_normal((3, 7)).astype(np.float32)),
        base_round=rng.integers(0, 10, 3),
        awaiting=rng.random(3) < 0.5,
        importance=rng.random(3),
        joules=rng.random(5),
        memory={"prices": [0.1, 1e-300, 2 / 3], "nested": {"on": True, "name": "ä", "none": None}, "step": 3},
        clock={"bits": rng.random((3, 2)), "busy": rng.random(3) < 0.5, "since": np.array(4, dtype=np.int64)},
    )


def view(label: str, accuracies: list[float], *, latency_s: float = 2.5, target: float | None = None) -> RunView:
    config = {} if target is None else {"evaluation": {"target_accuracy": target}}
    return RunView(
        label=label, rows=[line.to_json() for line in history(accuracies, latency_s=latency_s)], config=config
    )


def seeded(
    planner: str,
    seed: int,
    accuracies: list[float],
    *,
    latency_s: float = 2.5,
    scheduled: list[tuple[int, ...]] | None = None,
) -> RunView:
    """A run of a planner and a seed, of which nothing else is configured."""
    rows = [line.to_json() for line in history(accuracies, latency_s=latency_s)]
    for row, edges in zip(rows, scheduled or (), strict=False):
        row["scheduled"] = list(edges)
    config = {"network": {"edges": 4}, "planning": {"planner": planner}, "training": {"seed": seed}}
    return RunView(label=f"{planner}-s{seed}", rows=rows, config=config)


def folder_of(out: Path, records: list[RoundRecord], *, planner: str | None = "joint", seed: int | None = None) -> Path:
    """A folder of results with these records; without a planner it has no configuration."""
    with RunStore.open(out, resume=False) as store:
        if planner is not None:
            training = "" if seed is None else f"[training]\nseed = {seed}\n"
            network = "[network]\nedges = 4\n[learning]\ninner_lr = 0.1\n"
            store.write_config(f'{network}[planning]\nplanner = "{planner}"\n{training}')
        for line in records:
            store.append(line)
    return out
