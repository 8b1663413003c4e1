"""What parents and children of both tiers have in common, and what passes between the steps of a real round."""

import ast
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from deployment_nodes import Nodes, Tiny, audit_script, until

from hpfl import deployment
from hpfl.deployment import audit, edge, named_model
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.child import ChildSide
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.wire import Tag, digest_of, vector_frames

FILES = sorted(Path(deployment.__file__).parent.glob("*.py"))


def test_an_edge_is_a_parent_and_a_child_the_cloud_a_parent_a_ue_a_child(certificates):
    with Nodes(certificates, tiny=True) as nodes:
        nodes.start_all()
        cloud, one_edge, ue = nodes.deployment.cloud, nodes.edges[0], nodes.ues[0]
        assert type(one_edge.up) is type(ue.up) is ChildSide
        assert type(cloud._side) is type(one_edge.ues.side) is ParentSide


def test_a_new_model_is_hashed_once(certificates, tmp_path, monkeypatch):
    """By the cloud, whose round runs in this thread; the log, the checkpoint and the evaluation know its name."""
    hashed = []

    def counted(vector):
        name = digest_of(vector)
        if threading.current_thread() is threading.main_thread():
            hashed.append(name.hex())
        return name

    for module in (audit, edge, named_model):
        monkeypatch.setattr(module, "digest_of", counted)
    with Nodes(certificates, "evaluation.every=1", tiny=True) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        models = [nodes.state.params.numpy(), *(params.numpy() for params in nodes.play())]
    times = Counter(hashed)
    assert [times[digest_of(model).hex()] for model in models] == [1, 1, 1, 1]
    assert audit_script.audit(tmp_path)["rounds"] == 3


@pytest.mark.parametrize("length", [1, 300_000, 600_000])
def test_a_models_frames_are_those_of_its_vector_whatever_it_is_sent_for(length):
    vector = np.arange(length, dtype=np.float32)
    model = named_model.NamedModel.after(vector, run="r", node="cloud", round_number=3)
    for purpose in (1, 2, 3):
        assert list(model.frames(purpose)) == list(vector_frames(model.tag, vector, purpose=purpose))
    assert model.tag == Tag(run="r", node="cloud", round=3, base_round=3, base=digest_of(vector))


class Counting(Tiny):
    """Counts its computations by the round whose model they are on; slow enough to lose its edge meanwhile."""

    def __init__(self, *of):
        super().__init__(*of)
        self.computed = Counter()

    def update(self, params, *, base_round, edge_round):
        self.computed[base_round] += 1
        return super().update(params, base_round=base_round, edge_round=edge_round)


def test_a_ue_that_loses_its_edge_while_it_computes_computes_once(certificates):
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True) as nodes:
        nodes.start_cloud()
        hub = nodes.start_edge(0).ues.hub
        slow = Counting(0, nodes.experiment)
        slow.delay_s = 2.0
        ue = nodes.start_ue(0, learner=slow)
        nodes.start_ue(1)
        playing = threading.Thread(target=nodes.play, args=(1,))
        playing.start()
        until(lambda: slow.computed)
        before = hub.children[0]
        nodes.loop.loop.call_soon_threadsafe(ue.up.link.stream._call.cancel)
        until(lambda: hub.children.get(0) not in {None, before})
        playing.join(30)
        assert nodes.deployment.cloud.delivered[0].ues == [0, 1]
        assert slow.computed[0] == 1  # it may be at work on the next model already


def test_no_class_and_no_file_of_a_deployment_is_too_large_to_be_read_at_once():
    for path in FILES:
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
                assert len(methods) <= 15, f"{path.name}: {node.name}"
