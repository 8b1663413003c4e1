"""Models and losses of one's own through a whole run: what is learnt reaches the files and the UEs."""

import safetensors.torch
import torch
from torch import Tensor, nn

import hpfl
from hpfl.config import resolve
from hpfl.deployment.learner import Learner
from hpfl.deployment.own_data import own_data
from hpfl.learning import make_task

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 12]",
    "evaluation.test_samples=10",
    "planning.planner=random",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=3",
]
RARE_DIGITS = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 9.0] * 5))


class Tempered(nn.Module):
    """Class scores over a temperature that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.temperature = nn.Linear(784, 10), nn.Parameter(torch.tensor(1.5))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(inputs.flatten(1)) / self.temperature


def test_a_learnt_temperature_reaches_the_written_model_and_a_ue(tmp_path):
    config = resolve(hpfl.load("quickstart-paper", overrides=[*SMALL, "learning.model=test_own_model:Tempered"]))
    result = hpfl.run(config, out=tmp_path / "run")
    written = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    assert written["temperature"].shape == ()
    assert written["temperature"] != 1.5
    assert torch.equal(written["temperature"], result.model["temperature"])
    task = make_task(Tempered)
    learner = Learner(config, 2, own_data("", config, 2), task)
    personal = learner.named(learner.adapted(task.spec.flatten(written).numpy()))
    assert personal["temperature"].shape == ()
    assert personal["temperature"] != written["temperature"]


def test_class_weights_reach_the_losses_of_a_run():
    plain, weighted = (
        hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, f"learning.loss={loss}"]))
        for loss in ("cross-entropy", "test_own_model:RARE_DIGITS")
    )
    assert plain.rounds[0]["loss"] != weighted.rounds[0]["loss"]
    assert not torch.equal(plain.model["1.weight"], weighted.model["1.weight"])
