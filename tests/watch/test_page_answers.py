"""Every question of the page is answered with what the run's files say."""

import csv
import io

import numpy as np
import pytest
from watch_server import SMALL, lengthened, lines_of, serving

import hpfl


def test_the_list_of_runs_says_what_the_configuration_says(server, run_folder):
    (run,) = server.told("/api/runs")["runs"]
    assert (run["id"], run["name"], run["kind"], run["state"]) == ("r0", "first", "simulated", "done")
    assert (run["num_edges"], run["num_ues"], run["rounds"], run["total_rounds"]) == (3, 12, 6, 6)
    assert (run["planner"], run["dataset"], run["seed"]) == ("fastest", "mnist-mini", 0)
    assert run["clock_s"] == lines_of(run_folder)[-1]["time_s"]


def test_columns_are_the_lines_of_the_records_and_sums_are_sums(server, run_folder):
    records, told = lines_of(run_folder), server.told("/api/runs/r0/columns")
    columns = told["columns"]
    assert (told["count"], told["stride"]) == (6, 1)
    for name, value in records[0].items():
        if not isinstance(value, list):
            assert columns[name] == [record[name] for record in records], name
    np.testing.assert_allclose(columns["cumulative_energy_j"], np.cumsum([r["energy_j"] for r in records]))
    bits = [r["uplink_bits"] + r["downlink_bits"] for r in records]
    np.testing.assert_allclose(columns["cumulative_bits"], np.cumsum(bits))
    assert "personalised_accuracy" in told["evaluated"]
    assert "latency_s" not in told["evaluated"]


def test_a_stretch_of_columns_is_only_that(server):
    assert server.told("/api/runs/r0/columns?from=2&to=4")["columns"]["round"] == [2, 3, 4]


def test_a_round_whole_agrees_with_its_record_and_its_plan(server, run_folder):
    record, told = lines_of(run_folder)[3], server.told("/api/runs/r0/rounds/4")
    assert told["record"] == record
    edges = told["edges"]
    assert edges["scheduled"] == [edge in record["scheduled"] for edge in range(3)]
    aggregated = [edge for edge, became in enumerate(edges["outcome"]) if became == "aggregated"]
    assert aggregated == record["aggregated"]
    assert [edges["staleness"][edge] for edge in record["aggregated"]] == record["staleness"]
    assert [edges["base_round"][edge] for edge in record["aggregated"]] == [3 - s for s in record["staleness"]]
    assert any(edges["limits"])
    assert told["reasons"]["objective"] == record["objective"]
    assert told["reasons"]["step_scale"] == record["step_scale"]


def test_the_spectrum_of_a_phase_fits_into_the_band_and_ends_with_the_round(server, run_folder):
    record = lines_of(run_folder)[3]
    phases = server.told("/api/runs/r0/rounds/4")["spectrum"]["phases"]
    assert [phase["name"] for phase in phases] == ["access", "backhaul", "broadcast"]
    for phase in phases[:2]:
        assert sum(phase["links"]["hz"]) <= 5e6 * (1 + 1e-5)
        assert set(phase["links"]["edge"]) == set(record["scheduled"])
        assert any(phase["links"]["limits"])
    assert phases[0]["links"]["ue"]
    assert phases[2]["end_s"] == record["time_s"]
    assert phases[1]["end_s"] == pytest.approx(phases[2]["start_s"], rel=1e-4)
    assert sum(phases[2]["links"]["hz"][1:]) <= 5e6 * (1 + 1e-5)


def test_the_map_has_every_machine_where_the_experiment_puts_it(server):
    told = server.told("/api/runs/r0/rounds/5")["map"]
    assert (len(told["edges"]["x"]), len(told["ues"]["x"])) == (3, 12)
    assert sorted(told["ues"]["edge"]) == sorted(list(range(3)) * 4)
    assert all(-200 < gain < 0 for gain in told["ues"]["gain_db"] + told["edges"]["gain_db"])
    assert all(np.hypot(told["edges"]["x"], told["edges"]["y"]) <= 1000)


def test_rows_of_the_timeline_are_the_files(server, run_folder):
    rows = [row for row in lines_of(run_folder, "timeline.jsonl") if 2 <= row["round"] <= 3]
    told = server.told("/api/runs/r0/gantt?from=2&to=3")
    assert told["thinned"] is False
    for name in rows[0]:
        assert told[name] == [row[name] for row in rows]
    whole = server.told("/api/runs/r0/rounds/3")["gantt"]
    assert whole["start_s"] == [row["start_s"] for row in rows if row["round"] == 3]


def test_heat_maps_are_the_scenes(server, run_folder):
    told, scenes = server.told("/api/runs/r0/edges"), lines_of(run_folder, "scenes.jsonl")
    assert told["rounds"] == [1, 2, 3, 4, 5, 6]
    for edge in range(3):
        assert told["staleness"][edge] == [scene["edges"]["staleness"][edge] for scene in scenes]
        assert told["importance"][edge] == [scene["edges"]["importance"][edge] for scene in scenes]
    scheduled = [[int(edge in r["scheduled"]) for r in lines_of(run_folder)] for edge in range(3)]
    assert told["scheduled"] == scheduled


def test_the_table_of_ues_is_the_file_and_one_can_be_picked(server, run_folder):
    rows = list(csv.DictReader(io.StringIO((run_folder / "ues.csv").read_text())))
    columns = server.told("/api/runs/r0/ues")["columns"]
    assert columns["personalised_accuracy"] == [float(row["personalised_accuracy"]) for row in rows]
    assert columns["labels"] == [row["labels"] for row in rows]
    assert server.told("/api/runs/r0/ues?ue=7")["energy_j"] == float(rows[7]["energy_j"])


@pytest.mark.parametrize("name", ["rounds", "timeline", "ues"])
def test_a_download_is_a_table_of_the_file(server, run_folder, name):
    status, headers, content = server.answer(f"/api/runs/r0/files/{name}.csv")
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    if name == "ues":
        assert content == (run_folder / "ues.csv").read_bytes()
        return
    lines = lines_of(run_folder, f"{name}.jsonl")
    assert len(rows) == len(lines)
    number = "latency_s" if name == "rounds" else "start_s"
    assert [float(row[number]) for row in rows] == [line[number] for line in lines]


def test_runs_of_other_seeds_are_one_group(run_folder, other_seed):
    with serving(run_folder, other_seed) as asked:
        first, second = asked.told("/api/runs")["runs"]
    assert first["group"] == second["group"]
    assert (first["seed"], second["seed"]) == (0, 1)


def test_a_folder_of_runs_shows_each_and_the_rest_not(run_folder, other_seed, tmp_path):
    for name, folder in (("b", run_folder), ("a", other_seed)):
        (tmp_path / "sweep").mkdir(exist_ok=True)
        (tmp_path / "sweep" / name).mkdir()
        for file in ("config.toml", "rounds.jsonl"):
            (tmp_path / "sweep" / name / file).write_bytes((folder / file).read_bytes())
    (tmp_path / "sweep" / "notes").mkdir()
    with serving(tmp_path / "sweep") as asked:
        assert [run["name"] for run in asked.told("/api/runs")["runs"]] == ["a", "b"]
        round_ = asked.told("/api/runs/r0/rounds/2")
    assert round_["spectrum"] is round_["map"] is round_["gantt"] is None


def test_long_runs_are_thinned_with_their_evaluations_and_their_last_round(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "long", 10_003)
    config = (folder / "config.toml").read_text().replace("\nevery = 1 ", "\nevery = 10 ")
    assert "\nevery = 10 " in config
    (folder / "config.toml").write_text(config)
    with serving(folder) as asked:
        told = asked.told("/api/runs/r0/columns")
        assert (told["count"], told["stride"]) == (10_003, 10)
        rounds = told["columns"]["round"]
        assert len(rounds) <= 2_002
        assert (rounds[0], rounds[-1]) == (1, 10_003)
        assert all(number % 10 == 0 for number in rounds[1:-1])
        energy = sum(r["energy_j"] for r in lines_of(run_folder)) * (10_002 // 6)
        assert told["columns"]["cumulative_energy_j"][-2] == pytest.approx(energy, rel=2e-3)
        assert asked.told("/api/runs/r0/rounds/7777")["record"]["round"] == 7777
        assert len(asked.told("/api/runs/r0/edges")["rounds"]) <= 1_002
        assert asked.told("/api/runs/r0/columns?from=9000&to=9100")["columns"]["round"] == list(range(9000, 9101))


def test_the_debt_of_a_planner_that_keeps_one_is_told_over_rounds(tmp_path):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "planning.planner=fastest-v1", "training.rounds=4"])
    hpfl.run(config, out=tmp_path / "owing", figures=False)
    plans = [line["plan"] for line in lines_of(tmp_path / "owing", "scenes.jsonl")]
    with serving(tmp_path / "owing") as asked:
        told = asked.told("/api/runs/r0/plans")
        assert asked.told("/api/runs/r0/rounds/3")["reasons"]["debt"] == plans[2]["debt"] > 0
    assert told["rounds"] == [1, 2, 3, 4]
    assert told["columns"]["debt"] == [plan["debt"] for plan in plans]
    assert told["columns"]["price_s_per_hz"] == [plan["price_s_per_hz"] for plan in plans]


def test_a_planner_that_keeps_no_debt_tells_none(server):
    assert "debt" not in server.told("/api/runs/r0/plans")["columns"]


def test_of_many_ues_all_are_counted_and_any_can_be_picked(tmp_path):
    count, told = 12_000, np.round(np.random.default_rng(3).random(1_000), 6)
    shares = [""] * (count - told.size) + [str(share) for share in told]  # those at the end were evaluated
    rows = [f"{ue},{ue // 100},30,1 2,{share},0.5" for ue, share in enumerate(shares)]
    header = "ue,edge,samples,labels,personalised_accuracy,energy_j"
    (tmp_path / "config.toml").write_text("[network]\nedges = 120\nues_per_edge = 100\n")
    (tmp_path / "rounds.jsonl").write_text("")
    (tmp_path / "ues.csv").write_text("\n".join([header, *rows, ""]))
    with serving(tmp_path) as asked:
        found = asked.told("/api/runs/r0/ues")
        accuracy = found["histograms"]["personalised_accuracy"]
        assert (found["count"], sum(accuracy["counts"]), found["columns"]) == (count, told.size, None)
        counts, edges = np.histogram(told, bins=40)
        assert accuracy["counts"] == counts.tolist()
        np.testing.assert_allclose(accuracy["edges"], edges)
        assert [accuracy["p10"], accuracy["p90"]] == pytest.approx(np.quantile(told, [0.1, 0.9]))
        assert found["histograms"]["energy_j"]["counts"][0] == count
        assert asked.told("/api/runs/r0/ues?ue=11999")["personalised_accuracy"] == told[-1]
