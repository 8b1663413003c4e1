import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reporting_runs import evaluated, record

from hpfl.reporting.store import OutputError, RunStore, read_rounds, read_summary
from hpfl.reporting.table import csv_text, write_table


def written(out: Path, rounds: int) -> bytes:
    with RunStore.open(out, resume=False) as store:
        store.write_config("seed = 1\n")
        for number in range(1, rounds + 1):
            store.append(record(number))
    return (out / "rounds.jsonl").read_bytes()


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    written(tmp_path / "run", 3)
    assert read_rounds(tmp_path / "run") == [record(n).to_json() for n in (1, 2, 3)]


def test_rounds_load_with_pandas(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", resume=False) as store:
        for line in (record(1), evaluated(2, 0.75), record(3, objective=float("nan"))):
            store.append(line)
    table = pd.read_json(tmp_path / "run" / "rounds.jsonl", lines=True)
    assert list(table["scheduled"]) == [[1, 3], [2, 3], [0, 3]]
    assert table["personalised_accuracy"].isna().tolist() == [True, False, True]
    assert table["personalised_accuracy"][1] == 0.75
    assert np.isnan(table["objective"][2])
    assert table["round"].dtype == np.int64


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"not empty.*--resume.*another --out"):
        RunStore.open(tmp_path, resume=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_finished_run_is_refused_without_resume(tmp_path: Path) -> None:
    before = written(tmp_path / "run", 2)
    with pytest.raises(OutputError, match="--resume"):
        RunStore.open(tmp_path / "run", resume=False)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_resuming_where_there_is_no_run_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="no run to resume"):
        RunStore.open(tmp_path, resume=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_resuming_an_empty_folder_starts_a_run(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, resume=True) as store:
        store.append(record(1))
    assert len(read_rounds(tmp_path)) == 1


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        RunStore.open(tmp_path / "run", resume=False)


def test_a_run_that_fails_before_its_first_round_can_be_repeated(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "run", resume=False)
    store.write_config("seed = 1\n")
    store.close()
    assert not (tmp_path / "run").exists()
    written(tmp_path / "run", 1)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(killed_after=st.integers(0, 8), checkpoint=st.integers(0, 8), cut=st.integers(0, 500))
def test_a_killed_and_resumed_run_leaves_the_same_records(
    tmp_path: Path, killed_after: int, checkpoint: int, cut: int
) -> None:
    whole = written(tmp_path / f"whole-{os.urandom(6).hex()}", 9)
    lines = whole.splitlines(keepends=True)
    out = tmp_path / f"killed-{os.urandom(6).hex()}"
    out.mkdir()
    (out / "config.toml").write_text("seed = 1\n")
    (out / "rounds.jsonl").write_bytes(b"".join(lines[:killed_after]) + lines[killed_after][:cut])
    with RunStore.open(out, resume=True) as store:
        assert killed_after <= store.last_round <= killed_after + 1
        start = min(checkpoint, store.last_round)
        store.rewind(start)
        for number in range(start + 1, 10):
            store.append(record(number))
    assert (out / "rounds.jsonl").read_bytes() == whole


def test_a_process_killed_while_writing_is_resumed_from_its_last_whole_line(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2])\n"
        "from reporting_runs import record\nfrom hpfl.reporting.store import RunStore\n"
        "store = RunStore.open(pathlib.Path(sys.argv[1]), resume=False)\n"
        "for n in range(1, 10**6):\n    store.append(record(n)); print(n, flush=True)\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "run"), str(Path(__file__).parent)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "20\n":
            pass
        with pytest.raises(OutputError, match="another process"):
            RunStore.open(tmp_path / "run", resume=True)
        process.send_signal(signal.SIGKILL)
    with RunStore.open(tmp_path / "run", resume=True) as store:
        assert store.last_round >= 20
        store.rewind(15)
        store.append(record(16))
    assert read_rounds(tmp_path / "run") == [record(n).to_json() for n in range(1, 17)]


def test_two_stores_never_share_a_folder(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", resume=False) as store:
        store.append(record(1))
        with pytest.raises(OutputError, match="another process"):
            RunStore.open(tmp_path / "run", resume=True)
    RunStore.open(tmp_path / "run", resume=True).close()


def test_the_last_record_can_be_amended_and_the_folder_stays_locked(tmp_path: Path) -> None:
    written(tmp_path / "run", 3)
    with RunStore.open(tmp_path / "run", resume=True) as store:
        store.rewind(2)
        with pytest.raises(ValueError, match="cannot replace that of round 2"):
            store.amend_last(record(3).to_json())
        store.amend_last(record(2).to_json() | {"loss": None})
        with pytest.raises(OutputError, match="another process"):
            RunStore.open(tmp_path / "run", resume=True)
        store.append(record(3))
    assert read_rounds(tmp_path / "run") == [
        record(1).to_json(),
        record(2).to_json() | {"loss": None},
        record(3).to_json(),
    ]


def test_damage_before_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    whole = written(tmp_path / "run", 4)
    (tmp_path / "run" / "rounds.jsonl").write_bytes(whole.replace(b'"round": 2', b'"round": 7'))
    with RunStore.open(tmp_path / "run", resume=True) as store:
        assert store.last_round == 1
        with pytest.raises(OutputError, match="intact up to round 1 only"):
            store.rewind(3)
    with pytest.raises(OutputError, match="line 2"):
        read_rounds(tmp_path / "run")


def test_a_resumed_store_must_be_rewound_before_it_is_written(tmp_path: Path) -> None:
    written(tmp_path / "run", 2)
    with RunStore.open(tmp_path / "run", resume=True) as store, pytest.raises(RuntimeError, match="rewound"):
        store.append(record(3))


def test_a_round_is_never_skipped_or_written_twice(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", resume=False) as store:
        store.append(record(1))
        for wrong in (1, 3):
            with pytest.raises(ValueError, match=f"round {wrong} came after round 1"):
                store.append(record(wrong))


def test_conclusions_vanish_when_a_finished_run_goes_on(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", resume=False) as store:
        store.append(record(1))
        store.write_summary({"rounds": 1})
    with RunStore.open(tmp_path / "run", resume=True) as store:
        store.rewind(1)
        assert read_summary(tmp_path / "run") == {"rounds": 1}
        store.append(record(2))
    with pytest.raises(OutputError, match=r"summary\.json is missing"):
        read_summary(tmp_path / "run")


def test_leftovers_of_a_killed_write_are_removed(tmp_path: Path) -> None:
    written(tmp_path / "run", 1)
    (tmp_path / "run" / ".summary.json.partial").write_text('{"rou')
    RunStore.open(tmp_path / "run", resume=True).close()
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == ["config.toml", "rounds.jsonl"]


def test_a_half_written_last_line_is_left_out_when_reading(tmp_path: Path) -> None:
    whole = written(tmp_path / "run", 3)
    (tmp_path / "run" / "rounds.jsonl").write_bytes(whole[:-5])
    assert [row["round"] for row in read_rounds(tmp_path / "run")] == [1, 2]


def test_summaries_hold_only_what_json_can(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", resume=False) as store:
        store.append(record(1))
        store.write_summary({"a": float("nan"), "b": np.float64(0.1), "c": np.arange(2), "d": {"e": (np.True_,)}})
    text = (tmp_path / "run" / "summary.json").read_text()
    assert json.loads(text) == {"a": None, "b": 0.1, "c": [0, 1], "d": {"e": [True]}}
    assert text.endswith("}\n")


def test_models_come_back_bit_by_bit(tmp_path: Path) -> None:
    base = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    with RunStore.open(tmp_path / "run", resume=False) as store:
        store.write_model({"weight": base.T, "bias": base[0], "same": base[0]})
    loaded = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    assert torch.equal(loaded["weight"], base.T)
    assert torch.equal(loaded["bias"], base[0])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_csv_numbers_read_back_as_exactly_themselves(values: list[float]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text({"x": np.array(values)}))))
    assert [float(row["x"]) for row in rows] == values


def test_ues_load_with_pandas(tmp_path: Path) -> None:
    labels = np.empty(2, dtype=object)
    labels[:] = [[3, 7], [1, 2]]
    columns = {"edge": np.array([0, 1]), "labels": labels, "personalised_accuracy": np.array([0.5, np.nan])}
    write_table(tmp_path / "ues.csv", columns)
    table = pd.read_csv(tmp_path / "ues.csv")
    assert table["labels"].tolist() == ["3 7", "1 2"]
    assert table["personalised_accuracy"].isna().tolist() == [False, True]


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="equally long"):
        csv_text({"a": [1], "b": [1, 2]})


def test_damage_far_down_a_long_file_is_found_where_it_is(tmp_path: Path) -> None:
    lines = [json.dumps(record(n).to_json()) for n in range(1, 3001)]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    assert [row["round"] for row in read_rounds(tmp_path)] == list(range(1, 3001))
    at = lines[2500].index(",")
    for spoilt in (lines[2500][:at] + "\n" + lines[2500][at + 1 :], lines[2500].replace("2501", "2502", 1), "[]", ""):
        (tmp_path / "rounds.jsonl").write_text("\n".join([*lines[:2500], spoilt, *lines[2501:]]) + "\n")
        with pytest.raises(OutputError, match=r"line 2501 is not the record of round 2501"):
            read_rounds(tmp_path)
