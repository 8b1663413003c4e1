"""The reference says what the code says: every key, every part, every command, every public name, every column."""

import csv
import json
import re
from pathlib import Path

import make_reference
import pytest
from reference_pages.api import PACKAGES, public_names, said
from reference_pages.columns import files
from reference_pages.readers import REFUSED, read_by, shipped, simulated_only, uses

import hpfl
from hpfl.cli import COMMANDS, real_command
from hpfl.config.kinds import kinds
from hpfl.config.whole import Config
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, SettingsError, UeNodeSettings

DOCS = Path(__file__).parents[2] / "docs"
KEYS = [f"{section}.{key}" for section, info in Config.model_fields.items() for key in info.annotation.model_fields]


@pytest.fixture(scope="module")
def pages():
    return make_reference.pages()


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def test_what_is_committed_is_what_the_code_says(pages):
    stale = [str(path.relative_to(DOCS)) for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run python scripts/make_reference.py"


def test_no_page_of_the_reference_is_left_over_from_a_package_that_is_gone(pages):
    there = {path for path in (DOCS / "reference").rglob("*.md") if path.name != "index.md"}
    assert there <= set(pages)


@pytest.mark.parametrize("section", Config.model_fields)
def test_every_key_of_a_section_has_a_row_with_a_meaning_and_a_reader(section):
    body = page("reference/configuration.md").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = {line.split("`")[1]: line.split(" | ") for line in body.splitlines() if line.startswith("| `")}
    assert list(rows) == list(Config.model_fields[section].annotation.model_fields)
    assert all(len(row[-2].strip()) > 5 and row[-1].strip(" |") for row in rows.values())


def test_keys_that_no_path_loss_planner_or_partitioner_asks_for_are_not_said_to_be_read_by_it():
    assert read_by("planning.rho") == "planners `joint`, `alternating`, `paper`, `paper+p4`"
    assert read_by("data.concentration") == "partitioner `dirichlet`"
    assert "umi" not in read_by("network.ue_gain_db")


def test_keys_that_deployed_code_never_looks_at_are_those_of_simulated_runs():
    looked_at = {key for key, found in uses().items() if any(file.startswith("deploy") for file in found)}
    wrong = [key for key in KEYS if simulated_only(key) and key in looked_at and key not in REFUSED]
    assert wrong == []
    assert simulated_only("life.leave")
    assert simulated_only("evaluation.ues")
    assert not simulated_only("network.bandwidth_hz")


@pytest.mark.parametrize(
    "change", ["training.trigger=first", "network.coherence_s=0.1", "life.leave=0.1", "network.trace=t.csv"]
)
def test_a_deployed_cloud_refuses_what_the_page_says_simulated_runs_alone_read(change):
    clock = ["training.clock=event"] if "trace" not in change and "life" not in change else []
    experiment = hpfl.resolve(hpfl.load("quickstart-paper", overrides=[*clock, change]))
    assert simulated_only(change.partition("=")[0])
    with pytest.raises(SettingsError):
        refuse_what_only_a_simulator_can(experiment)


@pytest.mark.parametrize("model", [CloudNodeSettings, EdgeNodeSettings, UeNodeSettings])
def test_every_key_of_a_nodes_file_is_there(model):
    text = page("reference/node-files.md")
    keys = [key for key in model.model_fields if key not in ("tls", "limits", "timing")]
    inside = [f"{name}.{key}" for name in ("tls", "limits") for key in model.model_fields[name].annotation.model_fields]
    assert [key for key in (*keys, *inside) if f"| `{key}` |" not in text] == []


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_shipped_part_is_on_the_page_of_methods_in_the_section_of_its_kind(kind):
    heading = f"\n## {kind.registry.plural.capitalize()}\n"
    body = page("methods.md").partition(heading)[2].partition("\n## ")[0]
    assert body
    assert [name for name in shipped(kind.registry) if f"| `{name}` |" not in body] == []


def leaves(path, command):
    inside = getattr(command, "commands", None)
    return (
        [(path, command)] if inside is None else [x for name, c in inside.items() for x in leaves(f"{path} {name}", c)]
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_options_on_the_page(name):
    for path, command in leaves(name, real_command(name)):
        body = page("reference/commands.md").partition(f"\n## hpfl {path}\n")[2].partition("\n## ")[0]
        options = [one for each in command.params for one in each.opts if one.startswith("--") and each.name != "help"]
        assert body
        assert [option for option in options if f"`{option}`" not in body] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_the_pages_and_something_is_said_of_it(package):
    text, own = page("reference/api.md"), page(f"reference/api/{package}.md")
    for name in public_names(package):
        assert len(said(package, name)) > 10, f"{package}.{name} has no docstring"
        assert f"| `{name}` |" in text
        assert f" {package}.{name}\n" in own or f"`{package}.{name}` is described as [" in own


def explained(file):
    return {name for row in files()[file]["rows"] for name in row["names"]}


def test_every_column_of_every_committed_study_is_explained():
    headers = {}
    for path in sorted((DOCS / "reproduction").glob("*/*.csv")):
        with path.open(newline="") as file:
            headers[path] = next(csv.reader(file))
    known = explained("tables of studies")
    named = {
        re.sub(r"_(low|high)$", "", name) if name not in known else name for row in headers.values() for name in row
    }
    assert len(headers) > 40
    assert named == known


def test_every_key_of_the_claims_is_explained():
    claims = json.loads((DOCS / "reproduction" / "claims.json").read_text(encoding="utf-8"))
    assert {key for claim in claims for key in claim} == explained("claims.json")


def test_no_file_explains_a_name_twice_or_without_a_meaning():
    for file, told in files().items():
        names = [name for row in told["rows"] for name in row["names"]]
        assert len(names) == len(set(names)), file
        assert all(row["meaning"] for row in told["rows"])


def test_the_index_of_columns_has_every_column_of_a_run():
    text = page("reference/columns.md")
    for file in ("rounds.jsonl", "timeline.jsonl", "ues.csv", "summary.json"):
        assert [name for name in explained(file) if f"| `{name}` |" not in text] == []
