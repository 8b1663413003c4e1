"""Runs that the page is asked about, played once."""

import pytest
from watch_server import played, serving


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    return played(tmp_path_factory.mktemp("watched") / "first")


@pytest.fixture(scope="session")
def other_seed(tmp_path_factory):
    return played(tmp_path_factory.mktemp("watched") / "second", "training.seed=1")


@pytest.fixture(scope="module")
def server(run_folder):
    with serving(run_folder) as asked:
        yield asked
