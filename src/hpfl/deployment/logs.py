"""Structured logs: one JSON object per line, with the node's name and no secrets."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("hpfl.deployment")


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Note an event with its fields."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})


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
