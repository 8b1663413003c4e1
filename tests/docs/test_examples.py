"""The recipes run, and do what they say."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hpfl

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FLOWER = os.environ.get("HPFL_FLOWER_PYTHON", sys.executable if importlib.util.find_spec("flwr") else "")


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_what_the_page_of_recipes_quotes_stands_in_the_examples():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py")))
    quoted = [
        line.partition("  #")[0]
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(quoted) >= 4
    assert [line for line in quoted if line not in code] == []


def test_the_pytorch_loop_learns_and_takes_no_update_beyond_the_bound():
    loop = example("pytorch_loop")
    told = loop.main()
    assert told["after"] > 0.8 > told["before"]
    assert 0 < told["oldest"] <= loop.STALENESS_BOUND
    assert 0 < told["seconds"] < loop.main(planner="shpfl")["seconds"]


def write_pictures(folder, count, number):
    """Pictures of one class: bright in a place of its own."""
    folder.mkdir(parents=True)
    for one in range(count):
        picture = np.random.default_rng(one).integers(0, 60, (8, 8, 3), dtype=np.uint8)
        picture[2 * number : 2 * number + 3] += 180
        Image.fromarray(picture).save(folder / f"{one}.png")


@pytest.fixture(scope="module")
def folders():
    return example("image_folders")


def test_folders_of_users_become_samples_whose_classes_are_numbered_alike(folders, tmp_path):
    for user, classes in (("ann", ("cat", "dog")), ("bob", ("dog", "owl")), ("eve", ("cat", "owl"))):
        for name in classes:
            write_pictures(tmp_path / user / name, 10, ("cat", "dog", "owl").index(name))
    data = folders.per_user(tmp_path)
    inputs, targets = data.train[1]
    assert (inputs.shape, inputs.dtype) == ((20, 3, folders.SIDE, folders.SIDE), np.uint8)
    assert targets.tolist() == [1] * 10 + [2] * 10
    result = folders.main(tmp_path)
    assert len(result.rounds) == 10
    assert result.summary["num_ues"] == 3
    assert result.summary["final_personalised_accuracy"] > 0.9


def test_a_heap_of_pictures_is_dealt_by_a_partitioner(folders, tmp_path, monkeypatch):
    for part in ("train", "test"):
        for number, name in enumerate(("cat", "dog")):
            write_pictures(tmp_path / part / name, 12, number)
    monkeypatch.setenv("IMAGES", str(tmp_path))
    monkeypatch.setitem(sys.modules, "image_folders", folders)
    small = ["network.edges=2", "network.ues_per_edge=2", "data.samples_per_ue=5.0", "evaluation.test_samples=5"]
    named = ["data.dataset=image_folders:one_heap", "training.rounds=2", "planning.max_edges=2"]
    result = hpfl.run(hpfl.load("quickstart-paper", overrides=[*small, *named]))
    assert result.summary["num_ues"] == 4


@pytest.mark.skipif(not FLOWER, reason="flwr is not installed here (make test-flower has an environment for it)")
def test_the_flower_strategy_calls_who_is_planned_and_learns():
    code = (
        "import flower_strategy as f; strategy, left = f.main();"
        "called = {int(k) for plan in strategy.plans for k in plan.scheduled.nonzero()[0]};"
        "assert all(1 <= plan.scheduled.sum() <= strategy.most for plan in strategy.plans);"
        "assert all(abs(plan.ue_bandwidth_hz.sum() - strategy.band_hz) < 1 for plan in strategy.plans);"
        "assert called == set(range(f.CLIENTS)), called; assert left < 0.2, left; print('it works')"
    )
    paths = os.pathsep.join([str(EXAMPLES), str(ROOT / "src")])
    inherited = [] if os.environ.get("HPFL_FLOWER_PYTHON") else [os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([paths, *inherited])}
    done = subprocess.run([FLOWER, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip().endswith("it works"), done.stderr
