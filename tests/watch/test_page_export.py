"""The exported file: all of the page and its data in one, nothing to fetch, and the rules that make that possible."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watch_server import lengthened, serving

import hpfl
from hpfl.cli import app
from hpfl.watch.export import exported_data, inlined, joined_modules
from hpfl.watch.page_answers import FolderAnswers
from hpfl.watch.run_sources import Sources

STATIC = Path(hpfl.__file__).parent / "watch" / "static"
DATA = re.compile(r'<script type="application/json" id="hpfl-data">(.*?)</script>', flags=re.DOTALL)


@pytest.fixture(scope="module")
def page(run_folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("export") / "page.html"
    done = CliRunner().invoke(app, ["watch", str(run_folder), "--export", str(target)])
    assert done.exit_code == 0, done.output
    return target.read_text(encoding="utf-8")


def test_the_data_are_the_answers_of_the_server(page, run_folder):
    data = json.loads(DATA.search(page)[1])
    assert data["api/exported"] == {"rounds": {"r0": [1, 2, 3, 4, 5, 6]}, "thinned": False, "note": ""}
    assert data["api/runs"]["live"] is False
    with serving(run_folder) as asked:
        for path in ("columns", "rounds/3", "gantt", "edges", "ues"):
            assert data[f"api/runs/r0/{path}"] == asked.told(f"/api/runs/r0/{path}")


def test_nothing_is_fetched_from_anywhere(page):
    shell = DATA.sub("", page)
    assert not re.search(r'(?:src|href)="(?!#|data:)', shell)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "connect-src" not in policy


def test_every_block_of_code_is_one_that_the_policy_names(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    blocks = re.findall(r"<(?:style|script(?: type=\"module\")?)>(.*?)</(?:style|script)>", page, flags=re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_data_do_not_end_their_element():
    page = inlined(STATIC, json.dumps({"x": "</script><script>alert(1)</script><!--"}).encode()).decode()
    assert json.loads(DATA.search(page)[1]) == {"x": "</script><script>alert(1)</script><!--"}


def test_a_long_run_is_thinned_to_fit_and_says_so(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "long", 3_000)
    data = exported_data(FolderAnswers(Sources.of([folder])), most_bytes=2_000_000)
    told = data["api/exported"]
    assert told["thinned"] is True
    assert told["note"]
    assert 10 < len(told["rounds"]["r0"]) < 3_000
    assert told["rounds"]["r0"][-1] == 3_000
    assert len(json.dumps(data)) < 4_000_000


def test_modules_keep_to_the_rules_by_which_they_are_joined():
    names = (STATIC / "modules.txt").read_text().split()
    own = sorted(path.name for path in STATIC.glob("*.js"))
    assert sorted(names) == own
    declared, seen = [], set()
    for name in names:
        text = (STATIC / name).read_text(encoding="utf-8")
        for found in re.finditer(r'^import[^"]*"\./([^"]+)"', text, flags=re.MULTILINE):
            assert found[1] in seen, f"{name} imports {found[1]}, which comes later in modules.txt"
        for clause in re.findall(r"^import\s+(.*?)\s+from", text, flags=re.MULTILINE | re.DOTALL):
            assert re.fullmatch(r"\{[^}]*\}", clause), f"{name} imports something else than names: {clause}"
            assert " as " not in clause, name
        declared += re.findall(
            r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", text, flags=re.MULTILINE
        )
        assert not re.search(r"^export (?:default|\{|\*)", text, flags=re.MULTILINE), name
        assert "import(" not in text, name
        seen.add(name)
    assert len(declared) == len(set(declared)), sorted({one for one in declared if declared.count(one) > 1})
    joined = joined_modules(STATIC)
    assert not re.search(r"^(?:import|export)\b", joined, flags=re.MULTILINE)


def test_reading_runs_needs_neither_torch_nor_the_extra():
    lines = "import sys, hpfl.cli_watch; print(sorted({'torch', 'starlette', 'uvicorn', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


def test_without_the_extra_one_sentence_names_it(run_folder):
    lines = (
        "import sys; sys.modules['starlette'] = None; sys.argv = ['hpfl', 'watch', sys.argv[1], '--no-open']; "
        "from hpfl.cli import main; main()"
    )
    command = [sys.executable, "-c", lines, str(run_folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "hpfl: hpfl watch needs Starlette and uvicorn: pip install 'hpfl[watch]'\n"


def test_modules_can_be_joined_for_no_name_is_taken_twice():
    named = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", flags=re.MULTILINE)
    names = named.findall(joined_modules(STATIC))
    assert len(names) > 150
    assert [name for name in set(names) if names.count(name) > 1] == []
