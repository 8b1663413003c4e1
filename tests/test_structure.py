"""The house stays easy to find one's way in: small classes and files, and one meaning for each name."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "hpfl"
MOST_METHODS, MOST_LINES = 15, 300
EXCEPTIONS = {}
"""Why a class has more methods, a file is longer, or a name is used twice: its name, and a reason."""
ARRAYS = {"FloatArray": "float64", "IntArray": "int64", "BoolArray": "bool_"}


@cache
def trees():
    """The syntax tree of every file that a person wrote."""
    files = sorted(path for path in SOURCE.rglob("*.py") if not path.stem.endswith(("_pb2", "_pb2_grpc")))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def classes():
    return [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def is_method(node):
    """Whether it is a function that is called by its name: no property, and nothing that the language calls."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
        return False
    return not any("property" in ast.unparse(mark) for mark in node.decorator_list)


def aliases():
    """Names of types given at the top of a file: `Row = Mapping[str, Any]`, but no single letter."""
    for tree in trees().values():
        for node in tree.body:
            named = node.targets if isinstance(node, ast.Assign) else []
            names = [one.id for one in named if isinstance(one, ast.Name)]
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_there_is_something_to_look_at():
    assert len(trees()) > 200
    assert sum(is_method(node) for one in classes() for node in one.body) > 500
    assert set(ARRAYS) <= set(aliases())


def test_no_class_has_more_than_fifteen_methods():
    counts = {one.name: sum(map(is_method, one.body)) for one in classes()}
    assert not {name: count for name, count in counts.items() if count > MOST_METHODS and name not in EXCEPTIONS}


def test_no_file_is_longer_than_three_hundred_lines():
    lengths = {name: len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in trees()}
    assert not {name: count for name, count in lengths.items() if count > MOST_LINES and name not in EXCEPTIONS}


def test_a_name_of_a_class_an_alias_or_a_file_means_one_thing():
    files = [Path(name).name for name in trees() if not name.endswith("__init__.py")]
    counts = Counter([*files, *(one.name for one in classes()), *aliases()])
    assert not {name: count for name, count in counts.items() if count > 1 and name not in EXCEPTIONS}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_usual_arrays_go_by_their_names(name):
    spelled = f"NDArray[np.{ARRAYS[name]}]"
    where = {file for file, tree in trees().items() for node in ast.walk(tree) if is_spelled(node, spelled)}
    assert where == {"arrays.py"}


def is_spelled(node, wanted):
    return isinstance(node, ast.Subscript) and ast.unparse(node) == wanted
