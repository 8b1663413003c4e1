"""Figures of a deployment travel in the order of columns that every node derives from the experiment."""

import numpy as np
import pytest
from deployment_nodes import Nodes

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.evaluating import Evaluating
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag, numbers
from hpfl.learning import DEFAULT_METRICS, columns_of

OWN = ("personalised_confidence", "global_confidence")
METRICS = 'evaluation.metrics=["accuracy", "test-loss", "ue_and_rule_parts:confidence"]'


def test_a_deployment_reports_a_metric_of_ones_own_as_its_twin_would(certificates):
    with Nodes(certificates, "training.rounds=1", "evaluation.every=1", METRICS) as nodes:
        nodes.start_all()
        nodes.play()
        found, record = nodes.deployment.executor.evaluation(), nodes.record
        twins = {ue: learner.evaluate(nodes.state.params.numpy()) for ue, learner in nodes.learners.items()}
    assert tuple(found) == (*columns_of(DEFAULT_METRICS), *OWN)
    table = np.stack(list(found.values()), 1)
    assert all(np.array_equal(table[ue], row, equal_nan=True) for ue, row in twins.items())
    assert record.personalised_confidence == found.personalised_confidence.mean()
    assert tuple(record.to_json())[-3:] == (*OWN, "personalised_confidence_p10")


def test_the_usual_figures_travel_as_six_numbers_and_another_count_is_refused():
    tag, columns = Tag(run="run", node="ue-1", round=1, base=bytes(32)), columns_of(DEFAULT_METRICS)
    evaluating = Evaluating(tag, columns, [(0.0, np.inf)] * 6)
    evaluating.take(tag, 1, pb.Figures(ue=[1], values=numbers(np.arange(6.0))), allowed={1})
    assert evaluating.figures[1].tolist() == [0, 1, 2, 3, 4, 5]
    for count in (5, 8):
        with pytest.raises(RefusedError):
            evaluating.take(tag, 2, pb.Figures(ue=[2], values=numbers(np.arange(float(count)))), allowed={2})
