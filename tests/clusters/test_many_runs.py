"""Jobs on a real cluster: what a lost process or node costs is what its run did since its last checkpoint."""

from pathlib import Path
from typing import Any

import pytest
from local_cluster import cluster_of

pytest.importorskip("ray", reason="the extra `ray` is not installed")

import hpfl
from hpfl.cli import app
from hpfl.clusters.connecting import ClusterError
from hpfl.clusters.ray_engine import RayEngine
from hpfl.config import to_toml, with_overrides
from hpfl.sweeps.jobs import Job, JobOutcome

SMALL = ["network.edges=3", "network.ues_per_edge=2", "training.rounds=5", "training.checkpoint_every=1"]


class Course:
    """What is heard of jobs."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.outcomes: dict[str, JobOutcome] = {}

    def begun(self, job: Job) -> None: ...

    def round(self, job: Job, number: int) -> None: ...

    def note(self, job: Job, text: str) -> None:
        self.notes.append(text)

    def ended(self, job: Job, outcome: JobOutcome) -> None:
        self.outcomes[job.name] = outcome

    def should_stop(self) -> bool:
        return False


def job(name: str, written: Path, marker: str, **options: Any) -> Job:
    task = {"config": str(written), "out": str(written.parent / name), "marker": marker}
    return Job(name=name, player="cluster_parts:play", task=task, rounds=5, **options)


def swept_by(engine: str, out: Path) -> bytes:
    """The results of the command `hpfl sweep`, played by an engine; a cluster that is connected to is used."""
    command = [
        "sweep",
        "quickstart",
        "--engine",
        engine,
        "--workers",
        "2",
        "--device",
        "cpu",
        "--quiet",
        "--seeds",
        "2",
    ]
    command += [word for text in SMALL for word in ("--set", text)]
    app([*command, "--targets", "0.1", "--out", str(out)], standalone_mode=False)
    return (out / "results.csv").read_bytes()


@pytest.mark.timeout(900)
def test_a_run_whose_process_is_killed_goes_on_and_leaves_what_it_would_have(tmp_path: Path) -> None:
    written, course = tmp_path / "study.toml", Course()
    written.write_text(to_toml(with_overrides(hpfl.preset("quickstart"), SMALL)))
    jobs = [job("calm", written, ""), job("killed", written, str(tmp_path / "killed-once"))]
    no_gpu = r"a run was asked 0.5 GPUs for; no node of the cluster has more than 0"
    with cluster_of(2):
        with RayEngine(2) as engine:
            engine.run(jobs, course)
            with pytest.raises(ClusterError, match=no_gpu):
                engine.run([job("greedy", written, "", gpus=0.5)], course)
        with pytest.raises(ClusterError, match="--gpus is 2; the cluster has 0"), RayEngine(1, gpus=2):
            pass
        on_the_cluster = swept_by("ray", tmp_path / "ray")
    assert {name: outcome.done for name, outcome in course.outcomes.items()} == {"calm": True, "killed": True}
    assert course.outcomes["killed"].facts["resumed"]
    assert any("goes on from its last checkpoint" in note for note in course.notes)
    models = {(tmp_path / name / "model.safetensors").read_bytes() for name in ("calm", "killed")}
    assert len(models) == 1
    assert on_the_cluster == swept_by("local", tmp_path / "local")
