"""The notebooks of the documentation run from top to bottom in a kernel, and show what their prose promises."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = ("first-run", "own-data-and-model", "own-planner", "own-method", "results-section")
LONG_S = 600
"""A cell that takes longer hangs."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def executed(notebook, folder):
    """The notebook with its outputs, run in a folder of its own."""
    client = NotebookClient(notebook, timeout=LONG_S, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def outputs(notebook):
    """All outputs of all cells."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def shown(notebook, kind):
    """What cells show of one kind of media."""
    return [output.data[kind] for output in outputs(notebook) if "data" in output and kind in output.data]


@pytest.fixture(scope="session")
def first_run(tmp_path_factory):
    """The first notebook, and after it what goes wrong in one's own."""
    notebook = read("first-run")
    more = [
        "config.network.bandwidth_hz = -1",
        "from hpfl.planning import PLANNERS, plan_for_set\n"
        "import numpy as np\n"
        "for first in (0, 1):\n"
        "    @PLANNERS.register('mine')\n"
        "    def mine(problem, memory, stream):\n"
        "        return plan_for_set(problem, np.arange(problem.num_edges) == first, 'mine'), memory\n"
        "config.training.rounds = 1\n"
        "hpfl.run(config, planner='mine', progress=False).rounds[0]['scheduled']",
    ]
    for source in more:
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": ["raises-exception"]}))
    return executed(notebook, tmp_path_factory.mktemp("first-run"))


def test_every_notebook_is_listed_and_stored_without_outputs():
    listed = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == sorted(NAMES)
    for name in NAMES:
        assert f"({name}.ipynb)" in listed
        assert outputs(read(name)) == []


def test_the_first_notebook_shows_progress_a_result_tables_and_a_figure(first_run):
    pages = shown(first_run, "text/html")
    assert any("round 15/15" in page and "done in" in page for page in pages)
    assert any("<polyline" in page and "15, completed" in page for page in pages)
    assert any("personalised_accuracy" in page and "<table" in page for page in pages)
    assert len(shown(first_run, "image/png")) == 1
    assert any(
        re.fullmatch(r"[\d.]+ s at 5 MHz, [\d.]+ s at 1 MHz\n", output.get("text", "")) for output in outputs(first_run)
    )


def test_progress_needs_no_widgets_and_is_one_output(first_run):
    cell = next(cell for cell in first_run.cells if "result = hpfl.run(config)" in cell.source)
    kinds = [output.output_type for output in cell.outputs]
    assert kinds.count("display_data") == 1
    assert "ipywidgets" not in str(cell.outputs)


def test_a_fault_in_a_notebook_is_a_sentence(first_run):
    (error,) = [output for output in outputs(first_run) if output.output_type == "error"]
    assert error.ename == "ConfigError"
    assert error.evalue == "network.bandwidth_hz is -1; it should be greater than 0"
    assert len(error.traceback) <= 2
    assert "pydantic" not in "".join(error.traceback)


def test_registering_again_in_a_notebook_replaces(first_run):
    assert first_run.cells[-1].outputs[-1].data["text/plain"] == "[1]"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES[1:])
def test_the_notebook_runs(name, tmp_path):
    assert outputs(executed(read(name), tmp_path))


INTERRUPTED = """
import os, signal, hpfl
class AtThird(hpfl.Watcher):
    def round(self, state, record):
        if record.round == 3:
            os.kill(os.getpid(), signal.SIGINT)
config = hpfl.load("quickstart-paper", overrides=["network.edges=3", "network.ues_per_edge=2", "planning.max_edges=3"])
result = hpfl.run(config, watchers=[AtThird()])
print(len(result.rounds), result.how)
"""


@pytest.mark.slow
def test_an_interrupt_in_a_notebook_returns_what_there_is(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(INTERRUPTED)])
    said = "".join(output.get("text", "") for output in outputs(executed(notebook, tmp_path)))
    assert "stopping after this round (interrupt again to stop at once)" in said
    assert "stopped after round 3 of 150: the result has what there is\n" in said
    assert "3 stopped" in said
