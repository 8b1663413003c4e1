"""One run on a real cluster of several nodes: the bits of one process, whoever is lost on the way."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from local_cluster import cluster_of

pytest.importorskip("ray", reason="the extra `ray` is not installed")

import hpfl
from hpfl.clusters.block_worker import HELD, Given, HeldRows
from hpfl.clusters.connecting import ClusterError
from hpfl.clusters.spread import RaySpread
from hpfl.config import Config, with_overrides
from hpfl.data import Dataset
from hpfl.experiment import Hooks, run_experiment
from hpfl.learning import make_cohort
from hpfl.reporting.shown_result import ShownResult

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=6",
    "data.samples_per_ue=[4,9]",
    "learning.block_ues=5",
    "training.rounds=5",
    "training.checkpoint_every=1",
    "evaluation.every=2",
    "evaluation.test_samples=5",
]
LIVELY = [
    "training.clock=event",
    "learning.batch_size=4",
    "life.ue_failure=0.1",
    "life.sample_fraction=0.7",
    "life.speed_m_per_s=[1,20]",
]
QUIET = Hooks(warn=lambda text: None)


def small(tmp_path: Path, *more: str) -> Config:
    """24 UEs in five blocks, with private rows of a method and of a codec."""
    own = ["learning.method=cluster_parts:private_head", f'learning.method_options.marker="{tmp_path / "dead"}"']
    return with_overrides(hpfl.preset("quickstart"), [*SMALL, *own, 'learning.uplink=["top-k"]', *more])


def sha(result: ShownResult) -> str:
    return hashlib.sha256(b"".join(own.numpy().tobytes() for own in result.model.values())).hexdigest()


def told(result: ShownResult) -> list[dict[str, Any]]:
    """Records, but for what was measured on this machine's clock."""
    return [{name: repr(value) for name, value in row.items() if name != "planning_s"} for row in result.rounds]


def differing(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> dict[tuple[int, str], tuple[Any, Any]]:
    """Round, column and both values where records differ."""
    pairs = enumerate(zip(found, expected, strict=True), start=1)
    return {(at, name): (a[name], b[name]) for at, (a, b) in pairs for name in a if a[name] != b[name]}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def alone(config: Config, marker: Path, **options: Any) -> ShownResult:
    marker.touch()
    result = run_experiment(config, hooks=QUIET, figures=False, **options)
    marker.unlink()
    return result


@pytest.mark.timeout(900)  # processes are started, killed and started again; a loaded machine takes its time
def test_a_run_keeps_its_bits_when_a_worker_and_a_node_are_killed_and_with_other_workers(tmp_path: Path) -> None:
    config, out, marker = small(tmp_path, *LIVELY), tmp_path / "out", tmp_path / "dead"
    expected = alone(config, marker)
    with cluster_of(2, 1) as cluster:
        lost = []

        def on_round(record: Any) -> None:
            if record.round == 2:  # the node of one of both workers, with the private rows that it holds
                lost.append(cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False))

        short = with_overrides(config, ["training.rounds=4"])
        hooks = Hooks(on_round=on_round, warn=lambda text: None)
        run_experiment(short, out=out, figures=False, hooks=hooks, spread=RaySpread(workers=2))
        assert marker.exists()  # a worker has died in the middle of its first round
        assert lost
        found = run_experiment(config, out=out, resume=True, figures=False, hooks=QUIET, spread=RaySpread(workers=1))
        assert sha(found) == sha(expected)
        assert differing(told(found), told(expected)) == {}
        assert found.summary["spread"] == RaySpread(workers=1).facts
        with pytest.raises(ClusterError, match="3 workers with 1 CPUs each were asked for; the cluster has 2"):
            run_experiment(config, hooks=QUIET, spread=RaySpread(workers=3))


def test_a_worker_that_was_started_again_has_only_what_it_was_sent_since() -> None:
    """Were it to believe that it had all rows, it would take those of others."""
    held, ues = HeldRows(4), np.arange(4)
    now = held.keep(ues, {"method": np.eye(4)})
    assert torch.equal(held.kept(ues[:2], Given({"method": HELD}, now)).method, torch.eye(4, dtype=torch.float64)[:2])
    anew = HeldRows(4)
    now = anew.keep(ues[2:], {"method": np.eye(4)[2:]})  # as a call sends them whose rows have changed
    assert anew.kept(ues[2:], Given({"method": HELD}, now)) is not None
    assert anew.kept(ues[:2], Given({"method": HELD}, now)) is None
    assert anew.kept(ues[2:], Given({"codec": HELD}, now)) is None


def test_more_is_asked_for_than_there_is() -> None:
    with pytest.raises(hpfl.ConfigError, match="--workers is 0; wanted at least 1"):
        RaySpread(workers=0)
    with pytest.raises(hpfl.ConfigError, match="--cpus-per-worker is 0"):
        RaySpread(cpus_per_worker=0)
    with pytest.raises(hpfl.ConfigError, match=r"--gpus-per-worker is 1.5; wanted a share of one GPU"):
        RaySpread(gpus_per_worker=1.5)
    with pytest.raises(ClusterError, match=r"no Ray cluster can be reached at '127.0.0.1:1'"):
        run_experiment(hpfl.preset("quickstart"), spread=RaySpread(address="127.0.0.1:1"))
    with pytest.raises(ClusterError, match="no Ray cluster can be reached at 'nowhere': wanted HOST:PORT"):
        run_experiment(hpfl.preset("quickstart"), spread=RaySpread(address="nowhere"))
    with pytest.raises(hpfl.ConfigError, match="device is 'cuda'; workers of an engine are given GPUs by"):
        run_experiment(hpfl.preset("quickstart"), device="cuda", spread=RaySpread())


def test_the_local_engine_has_no_workers() -> None:
    with pytest.raises(hpfl.ConfigError, match="--workers is 4, and the engine is 'local'"):
        hpfl.run(hpfl.preset("quickstart"), workers=4)
    with pytest.raises(hpfl.ConfigError, match="engine is 'dask'; wanted local"):
        hpfl.run(hpfl.preset("quickstart"), engine="dask")


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        LIVELY,
        ["learning.model=lenet5", "learning.uplink=[]"],
        ["training.edge_rounds=2", "learning.uplink=auto", "planning.planner=fastest"],
        ["training.edge_combine=median", "planning.planner=joint"],
        ["evaluation.ues=12", "data.disjoint=false", "learning.local_steps=2"],
        ["learning.uplink=[]", "privacy.mechanism=gaussian", "privacy.adaptive=true"],
    ],
    ids=["lively", "lenet5", "auto", "median", "overlapping", "private"],
)
def test_any_number_of_workers_gives_the_bits_of_one_process(tmp_path: Path, more: list[str]) -> None:
    config, marker = small(tmp_path, *more), tmp_path / "dead"
    expected = alone(config, marker)
    with cluster_of(4, 4):
        for workers in (1, 2, 4, 8):
            marker.touch()
            found = run_experiment(config, hooks=QUIET, spread=RaySpread(workers=workers))
            assert sha(found) == sha(expected)
            assert told(found) == told(expected)


class Noting:
    """Makes cohorts in this process, and notes them."""

    facts: Mapping[str, Any] = {}

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    @contextmanager
    def cohorts(self, note: Callable[[str], None]) -> Iterator[Any]:
        def make(*given: Any, **options: Any) -> Any:
            self.seen.append(make_cohort(*given, **options))
            return self.seen[-1]

        yield make


def few_samples() -> Dataset:
    """600 samples and 300 for tests, drawn."""
    draws = np.random.default_rng(0)
    names = ("inputs", "targets", "test_inputs", "test_targets")
    parts = [own for count in (600, 300) for own in (draws.standard_normal((count, 20)), draws.integers(0, 5, count))]
    arrays = {n: own.astype(np.float32) if own.ndim > 1 else own for n, own in zip(names, parts, strict=True)}
    return Dataset(name="few", num_classes=5, sample_bits=640, **arrays)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_bits_of_one_process_where_ues_share_samples() -> None:
    """Little memory, and many times the samples there are: products are looked up in a table."""
    crowd = ["network.edges=8", "network.ues_per_edge=200", "data.samples_per_ue=[20,40]", "life.sample_fraction=0.6"]
    rest = ["learning.block_ues=100", "training.rounds=3", "learning.memory_gb=0.009", "training.checkpoint_every=1"]
    config = with_overrides(hpfl.preset("massive"), [*crowd, *rest])
    seen: list[Any] = []
    kind: dict[str, Any] = {"hooks": QUIET, "figures": False, "data": few_samples()}
    expected = run_experiment(config, spread=Noting(seen), **kind)
    assert seen[0].data.samples.table is not None
    with cluster_of(4, 4):
        for workers in (1, 2, 4, 8):
            found = run_experiment(config, spread=RaySpread(workers=workers), **kind)
            assert sha(found) == sha(expected)
            assert told(found) == told(expected)
