"""How the command line starts: at once, and saying of every command what the command says of itself."""

import subprocess
import sys
from pkgutil import resolve_name

import pytest
import typer
from typer.testing import CliRunner

from hpfl.cli import COMMANDS, app

_HEAVY = ("torch", "scipy", "numpy", "hpfl.config", "hpfl.learning")


@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_neither_torch_nor_what_else_takes_long(words):
    code = (
        f"import sys\nsys.argv = ['hpfl', *{words}]\nfrom hpfl.cli import main\n"
        f"try:\n    main()\nfinally:\n    print('loaded:', [n for n in {_HEAVY} if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_front_door_says_of_a_command_what_it_says_of_itself(name):
    found = resolve_name(COMMANDS[name].place)
    said = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    assert said.strip().split("\n", maxsplit=1)[0] == COMMANDS[name].help


def test_a_command_that_is_not_there_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app, ["rum"])
    assert answer.exit_code == 2
    assert "No such command 'rum'" in answer.output
    assert "run" in answer.output.split("'rum'")[1]


def test_the_package_has_all_it_promises_when_it_is_asked_for():
    code = "import hpfl, sys; early = 'torch' in sys.modules; [getattr(hpfl, n) for n in hpfl.__all__]; print(early)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_node_starts_without_scipy_and_looks_for_no_garbage_while_it_imports(tmp_path):
    code = (
        "import gc, sys, hpfl.lazy\n"
        "ended, end = [], hpfl.lazy.end_importing\n"
        "hpfl.lazy.end_importing = lambda: (ended.append((gc.isenabled(), 'hpfl.deployed' in sys.modules)), end())\n"
        "from hpfl.cli import main\n"
        f"sys.argv = ['hpfl', 'cloud', {str(tmp_path / 'missing.toml')!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(ended, gc.isenabled(), gc.get_freeze_count() > 100_000, 'scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(False, True)] True True False"
