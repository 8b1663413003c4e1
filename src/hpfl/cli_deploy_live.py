"""The live table of a local deployment: node, state, round, staleness, planned and measured seconds, bytes."""

import itertools
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from hpfl.deployment.local import LocalNode, Supervisor
from hpfl.deployment.status import read_status
from hpfl.stopping import KINDS, on_signals

_MOST_ROWS = 40
_LINE_EVERY_S = 5.0
_REFUSAL = "hpfl: "


def supervised(nodes: list[LocalNode], folder: Path, *, quiet: bool) -> int:
    """Run all nodes under a live table until the cloud ends; its exit status."""
    supervisor = Supervisor(nodes)
    console = Console(quiet=quiet)
    asked: list[signal.Signals] = []

    def heard(kind: signal.Signals) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(kind)
        cloud = supervisor.processes.get("cloud")
        if cloud is not None and cloud.poll() is None:
            cloud.send_signal(signal.SIGTERM)

    with on_signals(heard, (*KINDS, signal.SIGHUP)), ExitStack() as ending:
        ending.callback(supervisor.stop)
        supervisor.start()
        console.print(f"{len(nodes)} processes; their files are in {folder / 'nodes'}", soft_wrap=True)
        status = _watched(supervisor, folder / "run", console)
    _closing_words(console, folder, status)
    return status


def _watched(supervisor: Supervisor, run: Path, console: Console) -> int:
    if console.is_terminal and not console.quiet:
        with Live(console=console, refresh_per_second=4) as live:
            return supervisor.watch(lambda: live.update(table_of(read_status(run), supervisor)))
    told = [0.0, -1.0]

    def line() -> None:
        status = read_status(run)
        if status and status["round"] != told[1] and time.monotonic() - told[0] >= _LINE_EVERY_S:
            told[:] = time.monotonic(), status["round"]
            console.print(line_of(status), highlight=False, soft_wrap=True)

    return supervisor.watch(line)


def table_of(status: dict[str, Any] | None, supervisor: Supervisor) -> Table:
    """The rows of a status."""
    title = f"round {status['round']} of {status['rounds']}" if status else "starting"
    table = Table(title=title, title_justify="left")
    for name in ("node", "state", "round", "staleness", "planned s", "measured s", "received MB", "restarts"):
        table.add_column(name, justify="left" if name in {"node", "state"} else "right", no_wrap=True)
    rows = status["nodes"] if status else []
    for row in rows[:_MOST_ROWS]:
        table.add_row(
            row["node"],
            row["state"],
            _shown(row["round"]),
            _shown(row["staleness"]),
            _shown(row["planned_s"]),
            _shown(row["measured_s"]),
            f"{row['received_bytes'] / 1e6:.1f}",
            str(supervisor.restarts.get(row["node"], 0)),
        )
    if len(rows) > _MOST_ROWS:
        table.add_row(f"and {len(rows) - _MOST_ROWS} more", "", "", "", "", "", "", "")
    return table


def line_of(status: dict[str, Any]) -> str:
    """One line for where there is no terminal; before the first round no seconds are known."""
    cloud = status["nodes"][0]
    there = sum(row["state"] != "absent" for row in status["nodes"][1:])
    seconds = {"planned": cloud["planned_s"], "measured": cloud["measured_s"]}
    return "  ".join(
        [
            f"round {status['round']}/{status['rounds']}",
            f"{there} {'node' if there == 1 else 'nodes'} there",
            *(f"{name} {_shown(value)} s" for name, value in seconds.items() if value is not None),
            f"{cloud['received_bytes'] / 1e6:.1f} MB received",
        ]
    )


def _closing_words(console: Console, folder: Path, status: int) -> None:
    if status == 0:
        console.print(f"Results in {folder / 'run'}; recompute them with scripts/audit_recurrence.py", soft_wrap=True)
    elif status == 130:
        console.print(f"Stopped. To go on: hpfl deploy local --resume --out {folder}", soft_wrap=True)
    else:
        log = folder / "logs" / "cloud.jsonl"
        for line in (*_last_words(log, status), f"hpfl: the cloud has ended with status {status}; see {log}"):
            sys.stderr.write(f"{line}\n")


def _last_words(log: Path, status: int) -> list[str]:
    """The lines in which a cloud has said why it refuses to go on."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if status == 2 else []
    said = itertools.dropwhile(lambda line: not line.startswith(_REFUSAL), reversed(lines))
    return list(itertools.takewhile(lambda line: line.startswith(_REFUSAL), said))[::-1]


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
