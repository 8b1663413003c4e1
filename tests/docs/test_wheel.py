"""What is released: one version everywhere, and a wheel that runs where nothing of the repository is."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import hpfl

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hpfl"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (cited,) = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {project["version"], cited} == {hpfl.__version__}


def test_the_paper_is_cited_as_the_errata_name_it():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    errata = " ".join((ROOT / "docs" / "errata.md").read_text(encoding="utf-8").split())
    (title,) = re.findall(r'^  title: "(.*)"$', cited, flags=re.MULTILINE)
    assert title in errata
    assert all(name in errata for name in re.findall(r"family-names: (\w+)", cited))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    making = ["pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", *making, str(ROOT)], check=True)
    (made,) = folder.glob("hpfl-*.whl")
    return made


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_package_and_the_licences(wheel):
    there = set(zipfile.ZipFile(wheel).namelist())
    made = {"__pycache__"}
    files = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    wanted = {name for name in files if not made & set(Path(name).parts)}
    assert wanted - there == set()
    assert sum(name.endswith(".toml") for name in there) >= 5
    assert {Path(name).name for name in there if "dist-info" in name} >= {"LICENSE", "NOTICE", "entry_points.txt"}


@pytest.mark.slow
def test_a_wheel_runs_the_quickstart_outside_of_the_repository(wheel, tmp_path):
    """The environment is new and has nothing but the wheel; the large dependencies are lent to it by a path."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    installing = ["pip", "install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    subprocess.run([python, "-m", *installing], check=True)
    own = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    (Path(own.strip()) / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = [python, "-c", "import hpfl; print(hpfl.__file__)"]
    found = subprocess.check_output(where, cwd=tmp_path, env=environment, text=True)
    assert found.startswith(str(tmp_path / "env"))
    command = [tmp_path / "env" / "bin" / "hpfl", "run", "quickstart", "--rounds", "2", "--out", "run", "--quiet"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["rounds"], summary["completed"], summary["dataset"]) == (2, True, "mnist-mini")
    assert (tmp_path / "run" / "figures" / "progress.png").stat().st_size > 10_000
