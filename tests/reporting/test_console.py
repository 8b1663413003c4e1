import io
from collections.abc import Iterator

import pytest
from reporting_runs import evaluated, history, record
from rich.console import Console

from hpfl.reporting.console import RunDisplay, download_progress, sparkline

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def screen(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=100, _environ={"TERM": "xterm"}), file


def ticking(step_s: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step_s


def test_without_a_terminal_there_is_one_line_per_evaluation() -> None:
    console, file = screen(terminal=False)
    with RunDisplay(total_rounds=6, console=console) as display:
        for line in history([0.25, 0.5, 0.75], every=2):
            display.update(line)
    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith(
        "round 6/6       15.0 s simulated  loss 0.2500  accuracy 75.0 % (global 37.5 %)   2 edges"
    )
    assert "\x1b" not in file.getvalue()


def test_long_silences_are_broken_between_evaluations() -> None:
    console, file = screen(terminal=False)
    clock = ticking(1.0)
    with RunDisplay(total_rounds=1000, console=console, stopwatch=lambda: next(clock)) as display:
        for number in range(1, 31):
            display.update(record(number))
    assert 5 <= len(file.getvalue().splitlines()) <= 15


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_prints_nothing(terminal: bool) -> None:
    console, file = screen(terminal=terminal)
    with RunDisplay(total_rounds=2, console=console, quiet=True) as display:
        display.note("resuming")
        display.update(evaluated(1, 0.5))
    download_progress(quiet=True, console=console)("mnist", 10, 10)
    assert file.getvalue() == ""


def test_the_live_panel_tells_everything_and_gives_the_cursor_back() -> None:
    console, file = screen(terminal=True)
    with RunDisplay(total_rounds=4, console=console) as display:
        for line in history([0.2, 0.4, 0.6]):
            display.update(line)
    text = file.getvalue()
    for word in ("round 3/4", "7.5 s", "0.4000", "60.0 %", "2 scheduled", "4 at most", "left"):
        assert word in text
    assert text.rindex(SHOW) > text.rindex(HIDE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_errors_and_ctrl_c_pass_through_and_the_terminal_is_restored(error: type[BaseException]) -> None:
    console, file = screen(terminal=True)

    def interrupted() -> None:
        with RunDisplay(total_rounds=4, console=console) as display:
            display.update(evaluated(1, 0.5))
            raise error

    with pytest.raises(error):
        interrupted()
    assert file.getvalue().rindex(SHOW) > file.getvalue().rindex(HIDE)


def test_a_run_that_fails_before_its_first_round_never_touches_the_terminal() -> None:
    console, file = screen(terminal=True)
    with RunDisplay(total_rounds=4, console=console):
        pass
    assert file.getvalue() == ""


def test_pace_and_time_left_count_only_the_rounds_seen() -> None:
    console, file = screen(terminal=False)
    clock = ticking(0.25)
    with RunDisplay(total_rounds=110, console=console, stopwatch=lambda: next(clock)) as display:
        display.update(record(99))
        for number in (100, 101, 102):
            display.update(evaluated(number, 0.5))
    paces = [float(line.split("  ")[-2].split()[0]) for line in file.getvalue().splitlines()]
    assert all(0.5 < pace < 4 for pace in paces)


def test_a_task_without_accuracy_is_told_by_its_loss() -> None:
    console, file = screen(terminal=False)
    with RunDisplay(total_rounds=1, console=console) as display:
        display.update(evaluated(1, 0.5, personalised_accuracy=None, global_accuracy=None))
    assert "loss 0.5000" in file.getvalue()
    assert "accuracy" not in file.getvalue()


def test_a_note_keeps_its_brackets() -> None:
    console, file = screen(terminal=False)
    with RunDisplay(total_rounds=1, console=console) as display:
        display.note("edges[3] is late")
    assert file.getvalue() == "edges[3] is late\n"


def test_a_download_on_a_terminal_rewrites_one_line() -> None:
    console, file = screen(terminal=True)
    tell = download_progress(console=console)
    for done in (0, 500_000, 1_000_000, 1_000_000):
        tell("mnist", done, 1_000_000)
    assert file.getvalue().count("\n") == 1
    assert file.getvalue().endswith("1.0 of 1.0 MB\n")


def test_a_download_without_a_known_size_counts_bytes() -> None:
    console, file = screen(terminal=False)
    download_progress(console=console)("mnist", 2_500_000, 0)
    assert file.getvalue() == "downloading mnist  2.5 MB\n"


def test_a_sparkline_climbs_with_its_values() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([]) == ""
    assert len(sparkline([float(n) for n in range(1000)])) == 24
