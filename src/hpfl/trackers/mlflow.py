"""Watcher `mlflow`: configuration as parameters and every round's figures as metrics of an MLflow run."""

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.trackers.tracking import RoundFigures, Tracker, flat_settings, name_of
from hpfl.training.watching import Run, RunResult

_STATUS = {"completed": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
_MOST_PARAMETERS, _MOST_METRICS = 100, 1000
"""What MLflow takes in one call."""
_LONGEST = 500
"""Characters of a parameter's value; older servers take no more."""
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""A server that does not answer shall not hold a run up for minutes, unless the environment says so."""


class MlflowOptions(Options):
    """Options of watcher `mlflow`."""

    uri: str = option(
        "", "tracking server or store; empty: MLFLOW_TRACKING_URI, else mlflow.db beside the run's folder"
    )
    experiment: str = option("hpfl", "name of the experiment", min_length=1)
    run_name: str = option("", "name of the run; empty: as its folder")


@part(options=MlflowOptions)
class Mlflow(Tracker):
    """Parameters and metrics for MLflow: `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db` shows them."""

    extra, package = "mlflow", "mlflow"
    _client: Any = None
    _run_id = ""

    def __init__(self, folder: Path | None, *, options: MlflowOptions) -> None:
        super().__init__(folder)
        self._options = options

    def opened(self, run: Run, *, known: str, last: int) -> str:
        """The run of this name in the experiment, made anew or gone on with."""
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        for talker in ("mlflow", "alembic"):
            logging.getLogger(talker).setLevel(logging.WARNING)
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=self._store(run))
        self._run_id = known or self._begun(run)
        if known:
            self._client.update_run(known, status="RUNNING")
        return self._run_id

    def _store(self, run: Run) -> str:
        if self._options.uri or os.environ.get("MLFLOW_TRACKING_URI"):
            return self._options.uri or os.environ["MLFLOW_TRACKING_URI"]
        if run.folder is None:
            raise ValueError("a run without a folder has nowhere to keep mlflow.db; option uri says where")
        return f"sqlite:///{run.folder.resolve().parent / 'mlflow.db'}"

    def _begun(self, run: Run) -> str:
        from mlflow.entities import Param

        there = self._client.get_experiment_by_name(self._options.experiment)
        place = there.experiment_id if there else self._client.create_experiment(self._options.experiment)
        run_id: str = self._client.create_run(place, run_name=name_of(run, self._options.run_name)).info.run_id
        settings = [Param(key, str(value)[:_LONGEST]) for key, value in flat_settings(run).items()]
        for begin in range(0, len(settings), _MOST_PARAMETERS):
            self._client.log_batch(run_id, params=settings[begin : begin + _MOST_PARAMETERS])
        return run_id

    def write(self, rows: Sequence[RoundFigures]) -> None:
        """All metrics of these rounds; a round's number is their step."""
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        metrics = [Metric(name, value, now_ms, number) for number, row in rows for name, value in row.items()]
        for begin in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[begin : begin + _MOST_METRICS])

    def close(self, result: RunResult) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._run_id, status=_STATUS[result.how])
