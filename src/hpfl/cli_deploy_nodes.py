"""Which nodes `hpfl deploy local` starts: those of a new deployment, or of an earlier one that goes on."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl.config import Config, ConfigError, differences, fingerprint, idle_settings, load, to_toml
from hpfl.deployment.local import (
    EXPERIMENT,
    LocalNode,
    LocalOptions,
    laid_out,
    lay_out,
    refuse_what_no_cloud_would_run,
    small_network,
)
from hpfl.deployment.settings import CloudNodeSettings, read_settings
from hpfl.deployment.status import STATUS, read_status
from hpfl.reporting.store import OutputError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says; None where it says nothing."""

    source: str | None
    edges: int | None
    ues_per_edge: int | None
    changes: list[str]
    paced: bool | None
    time_scale: float | None
    serve: bool | None
    metrics: bool | None


def begun(folder: Path, asked: Asked, say: Callable[[str], None]) -> list[LocalNode]:
    """The nodes of a new deployment, their files written to `folder`; settings that do nothing are said."""
    if folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} is not empty; continue the run in it with --resume, or choose another --out")
    config = small_network(
        asked.source or "quickstart",
        edges=asked.edges,
        ues_per_edge=asked.ues_per_edge,
        overrides=asked.changes,
    )
    refuse_what_no_cloud_would_run(config)
    for line in idle_settings(config):
        say(line)
    options = LocalOptions(
        paced=asked.paced is not False,
        time_scale=asked.time_scale or 1.0,
        serve=bool(asked.serve),
        metrics=bool(asked.metrics),
    )
    return lay_out(folder, config, options)


def resumed(folder: Path, asked: Asked) -> list[LocalNode]:
    """The nodes of the deployment in `folder`, its experiment as long as is asked for now."""
    nodes = laid_out(folder)
    if not nodes:
        raise OutputError(f"{folder} holds no deployment to resume")
    before = load(str(folder / EXPERIMENT))
    _refuse_other_nodes(folder, asked, before)
    after = _changed(folder, asked, before)
    if after != before:
        (folder / EXPERIMENT).write_text(to_toml(after), encoding="utf-8")
    (folder / "run" / STATUS).unlink(missing_ok=True)  # it tells of processes that have ended
    return nodes


def _refuse_other_nodes(folder: Path, asked: Asked, config: Config) -> None:
    cloud = read_settings(CloudNodeSettings, folder / "nodes" / "cloud.toml")
    for option, wanted, there in (
        ("--edges", asked.edges, config.network.edges),
        ("--ues-per-edge", asked.ues_per_edge, config.network.ues_per_edge),
        ("--pacing", asked.paced, cloud.paced),
        ("--time-scale", asked.time_scale, cloud.time_scale),
        ("--serve", asked.serve, cloud.serve),
        ("--metrics", asked.metrics, bool(cloud.metrics)),
    ):
        if wanted is not None and wanted != there:
            raise ConfigError(
                f"{option} cannot be changed by --resume: it is {_shown(there)} in {folder}; leave it out, or choose "
                "another --out without --resume"
            )


def _changed(folder: Path, asked: Asked, before: Config) -> Config:
    """The experiment with the changes; only those are let through that leave the numbers of its rounds alone."""
    path, same = str(folder / EXPERIMENT), fingerprint(before)
    for change in asked.changes:
        if fingerprint(load(path, overrides=[change])) != same:
            raise ConfigError(
                f"--set {change} cannot be used with --resume: the run in {folder} has begun without it; leave it "
                "out, or choose another --out without --resume"
            )
    shape: dict[str, Any] = {"edges": before.network.edges, "ues_per_edge": before.network.ues_per_edge}
    named = before if asked.source is None else small_network(asked.source, **shape, overrides=asked.changes)
    if fingerprint(named) != same:
        told = differences(named, tomllib.loads(to_toml(before)))
        raise ConfigError(
            f"{asked.source} is not the experiment in {folder / EXPERIMENT}: {told}; leave it out to go on with that "
            "one"
        )
    after, status = load(path, overrides=asked.changes), read_status(folder / "run")
    if status is not None and status["round"] > after.training.rounds:
        raise ConfigError(
            f"training.rounds is {after.training.rounds}; the run to resume has done {status['round']} already"
        )
    return after


def _shown(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
