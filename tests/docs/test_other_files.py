"""The page of other result files explains every key of an audit and of a log."""

import json
import logging

import numpy as np
import safetensors.numpy

from hpfl.deployment.audit import Aggregated, AuditLog, LoggedCodings, Uploaded
from hpfl.deployment.logs import JsonLines
from hpfl.deployment.named_model import NamedModel
from hpfl.training.counted import Counted
from hpfl.training.step_coding import SentStep
from results_table import explained_elsewhere, flat

RULE = {"name": "mean", "options": {}}


def model(round_number):
    vector = np.full(4, round_number, dtype=np.float32)
    return NamedModel.after(vector, run="run", node="cloud", round_number=round_number)


def audited(folder):
    """An audit in which everything is coded, and the rule and the codec remember something."""
    ones = np.ones(4, dtype=np.float32)
    part = Aggregated(member=0, base_round=0, weight=1.0, factor=1.0, update=ones, ues=[0], message=ones)
    codings = LoggedCodings(menu=[[]], seed=0, arrays={"cloud_codec": ones, "places": ones})
    log = AuditLog(folder, "full")
    log.start(model(0), rule={"velocity": ones}, codings=codings)
    step = SentStep(bits=8.0, encode=lambda: b"")
    seconds = {"planned_s": 1.0, "measured_s": 1.0}
    heard = {"counted": Counted(slice(0, 2), 1), "heard": 1}
    came = Uploaded(before=model(0), parts=[part], outer_lr=0.1, combine=RULE, step=step, **heard, **seconds)
    log.stepped(came, model(1), {0: 1.0})
    log.ended()
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_every_key_of_an_audit_is_explained(tmp_path):
    lines = audited(tmp_path)
    keys = set().union(*(flat({**line, "rule": None} if "rule" in line else line) for line in lines))
    assert keys == explained_elsewhere("audit.jsonl")


def test_every_array_beside_an_audit_is_explained(tmp_path):
    files = [tmp_path / line["file"] for line in audited(tmp_path)]
    names = {name for file in files for name in safetensors.numpy.load_file(file)}
    assert {"rule/*" if name.startswith("rule") else name for name in names} == explained_elsewhere("audit/")


def test_every_line_of_a_log_has_the_keys_that_are_explained():
    record = logging.LogRecord("hpfl", logging.INFO, "file", 1, "attached", None, None)
    assert set(json.loads(JsonLines("ue-0").format(record))) == explained_elsewhere("logs/")
