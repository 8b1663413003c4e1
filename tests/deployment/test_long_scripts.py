"""The scripts whose long runs docs/deploy.md quotes work, and their bars can be missed: each played for a moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def played(name, *words):
    done = subprocess.run(
        [sys.executable, SCRIPTS / name, *words, "--json"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr[-2000:]
    return done, {row["work"]: row for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_a_moment_of_chaos_has_rounds_and_an_exact_audit_and_counts_gaps_without_one_as_missed(tmp_path):
    done, rows = played("chaos.py", "--minutes", "1.2", "--every", "6", "--out", str(tmp_path / "chaos"))
    gaps = rows["gaps between strikes with a round"]
    assert gaps["bar"] >= 1, done.stderr[-2000:]
    assert gaps["ok"] == (gaps["value"] == gaps["bar"])
    assert rows["rounds"]["value"] >= 1
    assert rows["audit"]["value"] == "exact"
    assert rows["error lines and tracebacks"]["value"] == 0


@pytest.mark.slow
def test_a_moment_of_hostile_frames_stops_no_round_and_kills_nobody():
    done, rows = played("hostile_frames.py", "--seconds", "20")
    assert rows["rounds"]["value"] >= rows["rounds"]["bar"] == 1, done.stderr[-2000:]
    assert rows["processes that died"]["value"] == rows["error lines and tracebacks"]["value"] == 0
    assert all(rows[f"frames to the {who}"]["value"] > 0 for who in ("cloud", "edge", "ue"))
