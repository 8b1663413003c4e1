"""Structured logs: one JSON object per line, with the node's name and no secrets."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpfl.deployment.held_back import HeldBack
from hpfl.deployment.peer_text import plain

LOGGER = logging.getLogger("hpfl.deployment")

_PEER_FIELDS = ("child", "peer", "parent", "ue", "edge")
"""Fields that name whose doing a line is; lines of one peer are held back where there are too many."""

_held_back = HeldBack()


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Note an event with its fields; words are cut to a length and escaped, for some of them are a peer's."""
    if not LOGGER.isEnabledFor(level):
        return
    words = {name: plain(value) if isinstance(value, str) else value for name, value in fields.items()}
    peer = next((words[name] for name in _PEER_FIELDS if name in words), None)
    told = {} if peer is None else _held_back.told(f"{event}/{peer}")
    if told is not None:
        LOGGER.log(level, event, extra={"fields": {**words, **told}})


class JsonLines(logging.Formatter):
    """`{"time": ..., "level": ..., "node": ..., "event": ..., fields}`."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "node": self._node,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
        return json.dumps(entry, default=str)


def log_to(node: str, *, level: str = "info", file: Path | None = None) -> None:
    """Send this process's log to standard error, or to a file."""
    handler = logging.StreamHandler(sys.stderr) if file is None else logging.FileHandler(file)
    handler.setFormatter(JsonLines(node))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
