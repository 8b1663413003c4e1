"""Interrupted studies: parts go on where they were stopped or killed, and what is damaged is begun anew."""

import itertools

import pytest
from study_runs import part, rounds_of, runs

import hpfl
from hpfl.reporting.store import read_rounds
from hpfl.studies.methods import ues_at_the_end
from hpfl.sweeps import part_run
from hpfl.sweeps.part_run import run_part
from hpfl.sweeps.parts import done


def test_an_interrupted_study_goes_on_where_it_stopped(tmp_path):
    parts, asked = [part("one"), part("two")], []

    def after_four_rounds():
        asked.append(1)
        return len(asked) > 6

    assert not runs(parts, tmp_path, should_stop=after_four_rounds)
    assert done(parts[0], tmp_path)
    assert not done(parts[1], tmp_path)
    assert runs(parts, tmp_path)


def stopping_in(round_number):
    """Stops for good while asked in that round: it is asked before a part and once after every round."""
    asked = itertools.count()
    return lambda: next(asked) >= round_number


def test_an_interrupted_part_goes_on_from_its_last_round(tmp_path):
    one = part(rounds=12)
    assert runs([one], tmp_path / "whole")
    for rounds in (3, 6):
        assert not runs([one], tmp_path / "cut", should_stop=stopping_in(3))
        assert len(read_rounds(one.unfinished(tmp_path / "cut", "cpu"))) == rounds
    assert runs([one], tmp_path / "cut")
    assert rounds_of(one, tmp_path / "cut") == rounds_of(one, tmp_path / "whole")
    assert done(one, tmp_path / "cut")["ues"] == done(one, tmp_path / "whole")["ues"]
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {"parts", ".lock"}


def test_a_target_counts_evaluations_from_before_an_interruption(tmp_path):
    one = part(rounds=12, stop_at_accuracy=0.0)
    assert not runs([one], tmp_path, should_stop=stopping_in(2))
    assert runs([one], tmp_path)
    assert len(rounds_of(one, tmp_path)["time_s"]) == 3  # as many evaluations as make a target count


class KilledError(Exception):
    """In place of a signal that cannot be caught: nothing is saved on the way out."""


def killed_in(round_number, one, out):
    def on_round(record):
        if record.round == round_number:
            raise KilledError

    with pytest.raises(KilledError):
        run_part(one, out, device="cpu", data_dir=None, hooks=hpfl.Hooks(on_round=on_round))


@pytest.mark.parametrize("limits", [{}, {"stop_at_accuracy": 0.0}])
def test_a_killed_part_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch, limits):
    monkeypatch.setattr(part_run, "CHECKPOINT_EVERY", 3)
    one = part(rounds=12, **limits)
    assert runs([one], tmp_path / "whole")
    for last in (2,) if limits else (2, 5, 8):
        killed_in(last, one, tmp_path / "cut")
        assert len(read_rounds(one.unfinished(tmp_path / "cut", "cpu"))) == last
    assert runs([one], tmp_path / "cut")
    assert rounds_of(one, tmp_path / "cut") == rounds_of(one, tmp_path / "whole")
    assert not (tmp_path / "cut" / "unfinished").exists()


def spoil_records(folder):
    (folder / "rounds.jsonl").write_text("nonsense\n")


def spoil_checkpoints(folder):
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"nonsense")


def lose_records(folder):
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_text(lines[0])


def spoil_timeline(folder):
    (folder / "timeline.jsonl").write_bytes(b"nonsense\n" + (folder / "timeline.jsonl").read_bytes())


@pytest.mark.parametrize("spoil", [spoil_records, spoil_checkpoints, lose_records, spoil_timeline])
def test_what_cannot_be_gone_on_with_is_begun_anew(tmp_path, spoil):
    one = part(rounds=5)
    assert runs([one], tmp_path / "whole")
    assert not runs([one], tmp_path / "cut", should_stop=stopping_in(3))
    spoil(one.unfinished(tmp_path / "cut", "cpu"))
    assert runs([one], tmp_path / "cut")
    assert rounds_of(one, tmp_path / "cut") == rounds_of(one, tmp_path / "whole")


@pytest.mark.parametrize("limits", [{"stop_at_s": 1e-9}, {"rounds": 2}])
def test_a_part_that_is_to_be_shorter_now_is_begun_anew(tmp_path, limits):
    assert not runs([part(rounds=5)], tmp_path, should_stop=stopping_in(3))
    shorter = part(**({"rounds": 5} | limits))
    assert runs([shorter], tmp_path)
    assert len(rounds_of(shorter, tmp_path)["time_s"]) == limits.get("rounds", 1)


def test_a_probe_that_is_stopped_ends_after_its_round_and_begins_anew(tmp_path):
    one, seen = part(rounds=8, probe=ues_at_the_end), []

    def stop_after(rounds):
        return hpfl.Hooks(on_round=lambda record: seen.append(record.round), should_stop=lambda: len(seen) >= rounds)

    run_part(one, tmp_path, device="cpu", data_dir=None, hooks=stop_after(3))
    assert seen == [1, 2, 3]
    assert not done(one, tmp_path)
    seen.clear()
    run_part(one, tmp_path, device="cpu", data_dir=None, hooks=stop_after(8))
    assert seen == list(range(1, 9))
    assert len(rounds_of(one, tmp_path)["time_s"]) == 8  # a stop that comes too late costs nothing
    assert done(one, tmp_path)["ues"]["personalised_accuracy"]


def endless(tmp_path):
    pair = [part("one", rounds=100_000), part("two", rounds=100_000)]
    begun = [each.unfinished(tmp_path, "cpu") / "rounds.jsonl" for each in pair]
    return pair, lambda: all(path.exists() and path.stat().st_size for path in begun)


def test_processes_at_work_stop_after_their_round(tmp_path):
    pair, at_work = endless(tmp_path)
    assert not runs(pair, tmp_path, workers=2, should_stop=at_work)
    assert all(read_rounds(each.unfinished(tmp_path, "cpu")) for each in pair)


def test_a_second_interruption_ends_the_processes_at_work(tmp_path):
    pair, at_work = endless(tmp_path)

    def interrupted():
        if at_work():
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        runs(pair, tmp_path, workers=2, should_stop=interrupted)
    assert all(read_rounds(each.unfinished(tmp_path, "cpu")) for each in pair)
