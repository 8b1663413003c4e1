"""How a run's results are written, `rounds.jsonl` line by line and the other files at once, and read back.

A record is appended before the checkpoint of its round is written, so whatever kills the process, the records reach
at least as far as the checkpoint and `rewind` can cut them back to it.
"""

import fcntl
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.torch
import torch

from hpfl import atomic
from hpfl.histories import Mark, holds, size_of, write_all
from hpfl.reporting.folder import CHECKPOINTS, CONFIG, MODEL, ROUNDS, RUN_ID, SUMMARY, UES, clear, is_run
from hpfl.row_folder import RowFolder
from hpfl.tracebacks import short_traceback
from hpfl.training.record import RoundRecord

_READ_AT_ONCE = 1 << 20  # bytes
_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND


class OutputError(Exception):
    """A folder of results that cannot be written to, continued or read."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it."""
        return short_traceback(self)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a sentence that a file or folder somebody asked for cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written to ({error.strerror}); choose another place") from error


class RunStore:
    """The only writer of one OUT; a lock on `rounds.jsonl` keeps other processes out and dies with this one.

    Every record is whole up to `last_round`; no later checkpoint can be continued from. `checkpoints` is their folder,
    which `save_checkpoint` makes when it needs it; `rows` are the files of what many UEs keep, beside them.
    """

    def __init__(self, out: Path, descriptor: int, *, created: bool) -> None:
        self.out, self.checkpoints, self.rows = out, out / CHECKPOINTS, RowFolder(out / CHECKPOINTS)
        self._descriptor, self._created = descriptor, created
        self._fresh = os.fstat(descriptor).st_size == 0
        lines = _content(out)
        self.last_round, self.num_lines = _intact_prefix(lines, last=None)[1], len(lines)
        self._mark = Mark.of(out / ROUNDS)
        self._stale_results, self._ready = not self._fresh, self._fresh

    @classmethod
    def open(cls, out: Path, *, resume: bool, force: bool = False) -> Self:
        """Take possession of `out`, which must be empty unless a run in it is to be resumed or, by force, replaced."""
        _refuse_unless_free(out, resume=resume, force=force)
        created = not out.exists()
        try:
            out.mkdir(parents=True, exist_ok=True)
            descriptor = _locked(out)
        except OSError as error:
            raise OutputError(f"{out} cannot be written to ({error.strerror}); choose another --out") from error
        try:
            _refuse_unless_free(out, resume=resume, force=force)
            atomic.remove_partials(out)
            return cls(out, descriptor, created=created)
        except BaseException:
            os.close(descriptor)
            raise

    def begin(self) -> None:
        """Start with the first round; what a run that is to be replaced has left is removed only now."""
        if not self._fresh:
            self.rows.clear()
            clear(self.out)
            os.ftruncate(self._descriptor, 0)
            self._fresh, self._ready, self._stale_results, self.last_round = True, True, False, 0
            self._mark = Mark()

    def damage(self, told: str, to_round: int) -> str:
        """What is wrong with the records that a mark vouches for; empty: nothing."""
        if self.last_round < to_round:
            return f"{ROUNDS} is intact up to round {self.last_round} only"
        size = _intact_prefix(_content(self.out), last=to_round)[0]
        is_same = size == size_of(told) and holds(self.out / ROUNDS, told)
        return "" if is_same else f"{ROUNDS} is not what was written up to round {to_round}"

    def rewind(self, to_round: int) -> None:
        """Drop the records after `to_round`, and a half-written line, so that rounds can be appended from there."""
        size, last = _intact_prefix(_content(self.out), last=to_round)
        if last != to_round:
            raise OutputError(
                f"{self.out / ROUNDS} is intact up to round {last} only, and round {to_round} is to be continued; "
                "choose another --out"
            )
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)
        self.last_round, self._ready, self._mark = last, True, Mark.of(self.out / ROUNDS)

    def amend_last(self, record: Mapping[str, Any]) -> None:
        """Put another record in place of the last one, at once; the lock goes over to the new file."""
        if not self._ready or record["round"] != self.last_round:
            raise ValueError(f"record of round {record['round']} cannot replace that of round {self.last_round}")
        lines = [*_content(self.out)[:-1], json.dumps(record, allow_nan=False).encode("utf-8"), b""]
        with atomic.replacing(self.out / ROUNDS) as partial:
            partial.write_bytes(b"\n".join(lines))
            descriptor = os.open(partial, _APPENDING)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(self._descriptor)
        self._descriptor, self._mark = descriptor, Mark.of(self.out / ROUNDS)

    def append(self, record: RoundRecord) -> None:
        """Add the line of the next round and hand it to the operating system, which keeps it if we are killed."""
        if not self._ready:
            raise RuntimeError("a resumed store must be rewound to its checkpoint before records are appended")
        if record.round != self.last_round + 1:
            raise ValueError(f"record of round {record.round} came after round {self.last_round}")
        if self._stale_results:  # what an earlier part of the run concluded is no longer true with another round
            _remove(self.out, SUMMARY, MODEL, UES)
            self._stale_results = False
        line = (json.dumps(record.to_json(), allow_nan=False) + "\n").encode("utf-8")
        self._mark.add(line)
        write_all(self._descriptor, line)
        self.last_round = record.round

    def mark(self) -> str:
        """The mark of all records."""
        return self._mark.told()

    def write_config(self, text: str) -> None:
        """Write the configuration."""
        atomic.write_text(self.out / CONFIG, text)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary; numbers that JSON cannot hold become null."""
        text = json.dumps(plain(summary), indent=2, allow_nan=False, ensure_ascii=False)
        atomic.write_text(self.out / SUMMARY, text + "\n")

    def write_model(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write the final parameters by name."""
        own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        atomic.write_bytes(self.out / MODEL, safetensors.torch.save(own, metadata={"format": "pt"}))

    def close(self) -> None:
        """Give the lock back; a fresh run that recorded nothing leaves nothing, so its command can be repeated."""
        if self._descriptor < 0:
            return
        if self._fresh and self.last_round == 0 and {entry.name for entry in self.out.iterdir()} <= {ROUNDS, CONFIG}:
            _remove(self.out, CONFIG, ROUNDS)
            if self._created:
                self.out.rmdir()
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_rounds(folder: Path) -> list[dict[str, Any]]:
    """All records of a run, finished or not; a half-written last line is left out, any other damage is an error."""
    path = Path(folder) / ROUNDS
    records: list[dict[str, Any]] = []
    with _existing(path).open("rb") as file:  # piece by piece: a long run's file is not held beside its records
        while lines := file.readlines(_READ_AT_ONCE):
            records += _numbered(path, [line for line in lines if line.endswith(b"\n")], len(records) + 1)
    return records


def _numbered(path: Path, lines: list[bytes], first: int) -> list[dict[str, Any]]:
    """The records in lines that begin with that of round `first`, read together: their names lie in memory once."""
    records = (_parsed(b'{"all":[' + b",".join(lines) + b"]}") or {"all": []})["all"]
    numbers = range(first, first + len(lines))
    if [_round_of(record) for record in records] == list(numbers):
        return list(records)
    wrong = next(number for number, line in zip(numbers, lines, strict=True) if _round_of(_parsed(line)) != number)
    raise OutputError(f"{path} line {wrong} is not the record of round {wrong}")


def _round_of(record: Any) -> Any:
    return record.get("round") if isinstance(record, dict) else None


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a finished run."""
    path = Path(folder) / SUMMARY
    summary = _parsed(_existing(path).read_bytes())
    if summary is None:
        raise OutputError(f"{path} is not a JSON object")
    return summary


def is_summed_up(folder: Path) -> bool:
    """Whether the summary and the table of UEs of a run are there and can be read."""
    path = Path(folder) / SUMMARY
    return path.is_file() and _parsed(path.read_bytes()) is not None and (Path(folder) / UES).is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """What the configuration's file says, section by section and unchecked; empty where there is none."""
    path = Path(folder) / CONFIG
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} is not TOML: {error}") from error


def plain(value: Any) -> Any:
    """`value` in the types of JSON: arrays become lists, numbers that JSON cannot hold become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _refuse_unless_free(out: Path, *, resume: bool, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; --out wants a folder")
    names = {entry.name for entry in out.iterdir()} if out.exists() else set()
    if ROUNDS in names and (out / ROUNDS).stat().st_size == 0:
        names.remove(ROUNDS)  # laid by open() itself, or by a process killed before its first round
    if names and force:
        _refuse_what_is_no_run(out)
    elif names and not resume:
        raise OutputError(
            f"{out} is not empty; continue the run in it with --resume, replace it with --force, or choose another "
            "--out"
        )
    if names - {CONFIG} and not (out / ROUNDS).exists():
        raise OutputError(f"{out} holds files but no {ROUNDS}, so no run to resume; choose another --out")


def _refuse_what_is_no_run(out: Path) -> None:
    if not is_run(out):
        raise OutputError(f"{out} holds files but no run, and --force replaces runs alone; choose another --out")
    if (out / RUN_ID).exists():
        raise OutputError(f"{out} holds the run of a deployment, which --force does not replace; choose another --out")


def _locked(out: Path) -> int:
    descriptor = os.open(out / ROUNDS, _APPENDING, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        replaced = os.fstat(descriptor).st_nlink == 0
    except BlockingIOError:
        replaced = True
    if replaced:
        os.close(descriptor)
        raise OutputError(f"{out} is being written by another process; wait for it, or choose another --out")
    return descriptor


def _remove(out: Path, *names: str) -> None:
    for name in names:
        (out / name).unlink(missing_ok=True)


def _content(out: Path) -> list[bytes]:
    return (out / ROUNDS).read_bytes().split(b"\n")[:-1]


def _intact_prefix(lines: list[bytes], *, last: int | None) -> tuple[int, int]:
    """Bytes and number of the leading lines that are whole records of rounds 1, 2, ... up to `last`."""
    size = count = 0
    for line in lines[:last]:
        if _round_of(_parsed(line)) != count + 1:
            break
        size, count = size + len(line) + 1, count + 1
    return size, count


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise OutputError(f"{path} is missing; a folder of results has it")
    return path
