import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from chaos import direction_of
from deployment_nodes import Nodes, Proxy

from hpfl.data.dataset import DatasetError
from hpfl.deployment.learner import Learner
from hpfl.deployment.own_data import own_data
from hpfl.deployment.own_store import OwnStore
from hpfl.deployment.processes import adapt_ue
from hpfl.deployment.status import Board
from hpfl.deployment.stream import TierStream


def test_a_ue_fetches_adapts_saves_and_reports(certificates, tmp_path):
    with Nodes(certificates, "training.rounds=2") as nodes:
        nodes.start_all()
        after = nodes.play()
        settings = nodes.ue_settings(1)
        out = tmp_path / "personal.safetensors"
        before, adapted = nodes.loop.run(adapt_ue(settings, out), 30)
        assert 1 in nodes.edges[0].ues.hub.children  # the visit does not disturb the UE that trains
    config, task = nodes.config, nodes.experiment.task
    data = own_data("", config, 1)
    params = after[-1]
    parts = safetensors.torch.load_file(out)
    personal = task.spec.flatten(parts)
    expected = params - config.evaluation.inner_lr * _gradient(task, params, data)
    assert torch.allclose(personal, expected, atol=1e-6)
    assert before == pytest.approx(_accuracy(task, params, data))
    assert adapted == pytest.approx(_accuracy(task, personal, data))


def _gradient(task, params, data):
    params = params.clone().requires_grad_()
    loss = task.loss(task.outputs(params, data.inputs), data.targets).mean()
    return torch.autograd.grad(loss, params)[0]


def _accuracy(task, params, data):
    outputs = task.outputs(params, data.test_inputs)
    return float((outputs.argmax(dim=1) == data.test_targets).double().mean())


def test_raw_data_never_leave_a_ue(certificates, monkeypatch):
    """Watch every frame a UE sends, before it is encrypted: few bytes beside the update, and no sample among them."""
    sent = {}
    plain = TierStream._write

    async def watched(self, frame):
        if direction_of(self) == "up":
            sent.setdefault(self, []).append(bytes(frame))
        await plain(self, frame)

    monkeypatch.setattr(TierStream, "_write", watched)
    with Nodes(certificates, "training.rounds=2", "evaluation.every=1") as nodes:
        nodes.start_all()
        nodes.play()
        data = {ue: learner._data for ue, learner in nodes.learners.items()}
    frames = [frame for some in sent.values() for frame in some]
    assert len(frames) > 20
    needles = [needle for own in data.values() for needle in _needles(own)]
    assert len(needles) > 50
    everything = b"\x00".join(frames)
    assert not [needle for needle in needles if needle in everything]
    kinds = {frame_kind(frame) for frame in frames}
    assert kinds <= {"hello", "sketch", "begin", "chunk", "figures", "refusal"}
    small = [frame for frame in frames if frame_kind(frame) not in {"begin", "chunk", "hello"}]
    assert max(map(len, small)) < 2000
    assert max(len(frame) for frame in frames if frame_kind(frame) == "hello") < 4000  # a short hash for every key


def frame_kind(frame):
    from hpfl.deployment.wire import decode

    return decode(frame)[1].WhichOneof("body")


def _needles(own):
    """Stretches of every sample's middle, as float32, as float64 and as bytes; dull ones would be found anywhere."""
    for sample in own.inputs.numpy():
        row = sample.reshape(-1)
        busiest = max(range(0, row.size - 8, 8), key=lambda at: len(set(row[at : at + 8].tolist())))
        stretch = row[busiest : busiest + 8]
        if len(set(stretch.tolist())) >= 5:
            yield stretch.astype("<f4").tobytes()
            yield stretch.astype("<f8").tobytes()
            yield np.round(stretch * 255).astype(np.uint8).tobytes()


def test_what_passes_between_machines_is_encrypted(certificates):
    with Nodes(certificates, "training.rounds=1", tiny=True) as nodes:
        nodes.start_cloud()
        seen = []
        proxy = Proxy(nodes.loop, nodes.cloud_port)
        proxy.seen = seen.append
        nodes.start_edge(0, cloud_port=proxy.port)
        nodes.start_edge(1)
        for ue in range(4):
            nodes.start_ue(ue)
        nodes.play()
        proxy.close()
        params = nodes.deployment.start.params.numpy()
    wire = b"".join(seen)
    assert len(wire) > params.nbytes
    assert params[:16].tobytes() not in wire
    assert b"run-1" not in wire


def test_data_come_from_a_folder_or_a_function(tmp_path, certificates, monkeypatch):
    config = Nodes(certificates).config
    generator = np.random.default_rng(0)
    arrays = {
        "inputs": generator.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8),
        "targets": np.arange(6),
        "test_inputs": generator.random((4, 1, 28, 28), dtype=np.float32),
        "test_targets": np.arange(4),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    found = own_data(str(tmp_path), config, 0)
    assert found.inputs.dtype == torch.float32
    assert float(found.inputs.max()) <= 1.0
    assert found.targets.tolist() == [0, 1, 2, 3, 4, 5]
    (tmp_path / "my_shop.py").write_text(
        "import torch\ndef load():\n    return torch.zeros(3, 1, 28, 28), torch.arange(3), "
        "torch.ones(2, 1, 28, 28), torch.arange(2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert own_data("my_shop:load", config, 0).inputs.shape == (3, 1, 28, 28)
    with pytest.raises(DatasetError, match="module:callable"):
        own_data("my_shop:nothing", config, 0)
    with pytest.raises(DatasetError, match="wanted a folder"):
        own_data("nowhere", config, 0)
    (tmp_path / "targets.npy").unlink()
    with pytest.raises(DatasetError, match="holds no data"):
        own_data(str(tmp_path), config, 0)


def test_a_file_of_tensors_that_is_damaged_is_refused_in_a_sentence(tmp_path, certificates):
    (tmp_path / "data.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(DatasetError, match="holds no data"):
        own_data(str(tmp_path), Nodes(certificates).config, 0)


def test_a_folder_with_pickled_objects_is_refused(tmp_path, certificates):
    for name in ("inputs", "targets", "test_inputs", "test_targets"):
        np.save(tmp_path / f"{name}.npy", np.array([{"not": "numbers"}], dtype=object))
    with pytest.raises(DatasetError, match="holds no data"):
        own_data(str(tmp_path), Nodes(certificates).config, 0)


def test_a_twin_computes_what_the_cohort_of_all_computes(certificates):
    from hpfl.data.sources import load_dataset
    from hpfl.rng import Streams
    from hpfl.simulation.simulated_run import build_simulation

    nodes = Nodes(certificates, "learning.batch_size=3", "learning.dtype=float64")
    nodes.loop.__exit__()
    config, experiment = nodes.config, nodes.experiment
    everyone = build_simulation(
        config, load_dataset(config.data.dataset), device=torch.device("cpu"), stopwatch=lambda: 0.0
    )
    params = everyone.start.params
    cohort = everyone.parts.executor.learners.cohort
    whole = cohort.updates(
        params,
        ues=np.arange(4),
        groups=np.arange(4),
        num_groups=4,
        streams=Streams(config.training.seed),
        key=5 * 2**20 + 1,
    )
    for ue in range(4):
        learner = Learner(config, ue, own_data("", config, ue), experiment.task)
        alone = learner.update(params.numpy(), base_round=5, edge_round=1)
        np.testing.assert_allclose(alone, whole.update[ue].numpy(), atol=1e-12)


def test_a_ue_with_a_head_of_its_own_takes_it_away_on_the_shared_body(certificates, tmp_path):
    changes = ["learning.model=ue_and_rule_parts:narrow", "learning.method=ue_and_rule_parts:PrivateHead"]
    with Nodes(certificates, "training.rounds=2", *changes) as nodes:
        nodes.start_all()
        after = nodes.play()
        settings, out = nodes.ue_settings(1), tmp_path / "personal.safetensors"
        nodes.loop.run(adapt_ue(settings, out), 30)
    spec = nodes.experiment.task.spec
    kept = OwnStore(Path(settings.state), nodes.experiment.sending.numbers_kept).newest()
    personal, shared = spec.flatten(safetensors.torch.load_file(out)), after[-1]
    head = spec.entries("3.")
    body = torch.ones(spec.num_parameters, dtype=torch.bool)
    body[head] = False
    assert torch.equal(personal[head], kept.method[:-1])
    assert torch.equal(personal[body], shared[body])
    assert not torch.equal(personal[head], shared[head])


def test_an_edge_is_told_of_a_ue_whose_state_is_lost_and_the_record_counts_it(certificates):
    changes = ["learning.model=ue_and_rule_parts:narrow", "learning.method=ue_and_rule_parts:PrivateHead"]
    told, states = [], []
    with Nodes(certificates, "training.rounds=6", "planning.planner=full", *changes) as nodes:
        nodes.start_all()
        state_of = Path(nodes.ue_settings(1).state)
        board = Board(nodes.deployment.cloud, edges={}, num_ues=4)

        def watch(state, record):
            told.append(record.to_json()["num_anew"])
            states.append({row.node: row.state for row in board.rows()}["ue-1"])
            if record.round in {2, 4}:  # comes back with its state, then without
                nodes.kill("ue-1")
                if record.round == 4:
                    shutil.rmtree(state_of)
                nodes.start_ue(1)
            return True

        nodes.play(watch=watch)
    assert told[:4] == [0, 0, 0, 0]
    assert sum(told) == 1
    assert states[told.index(1)] == "began anew"
    assert "began anew" not in states[:4]
