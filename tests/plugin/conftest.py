"""The example package, built and installed as a user would, beside the environment of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "examples" / "plugin"
sys.path.insert(0, str(PACKAGE / "src"))  # its modules; entry points are found only where it is installed


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The folder it was installed to."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", folder, PACKAGE], check=True, timeout=120)
    return folder


@pytest.fixture(scope="session")
def environment(installed):
    """Environment variables of a process that has the package."""
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
