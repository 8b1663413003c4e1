"""A deployed cloud that is asked over HTTP: its nodes, and the rounds that it ends while somebody looks."""

import http.client
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from hpfl.watch.columns import MOST_POINTS, RoundRow
from hpfl.watch.node_rows import node_columns
from hpfl.watch.shown import WatchError, number, parsed, text, whole

_ASKED_AGAIN_S, _WAITED_S = 0.4, 2.0
_LARGEST_BYTES = 1 << 23
_GONE_S = 10.0


class WatchedCloud:
    """The cloud whose metrics are served at an address; what it says is believed to be text and numbers, no more."""

    def __init__(self, address: str, name: str) -> None:
        self.id, self.lock = name, threading.RLock()
        self._address = address if "://" in address else f"http://{address}"
        where = urlsplit(self._address)
        if where.scheme not in {"http", "https"} or not where.hostname:
            raise WatchError(f"{address} is not an address; wanted http://HOST:PORT as the cloud's file has in metrics")
        self._where = where
        self._status: dict[str, Any] = {}
        self._rows: list[RoundRow] = []
        self._asked_s, self._heard_s = float("-inf"), float("-inf")

    @property
    def count(self) -> int:
        """Rounds that were heard of."""
        return len(self._rows)

    def refresh(self) -> bool:
        """Ask, unless that was done just now; True where the cloud has begun anew."""
        with self.lock:
            now = time.monotonic()
            if now - self._asked_s < _ASKED_AGAIN_S:
                return False
            self._asked_s = now
            status = self._fetched()
            if status is None:
                return False
            self._heard_s, self._status = now, status
            return self._note(status)

    def _note(self, status: dict[str, Any]) -> bool:
        record = status.get("record")
        reached = whole(record.get("round")) if isinstance(record, dict) else 0
        last = self._rows[-1]["round"] if self._rows else 0
        anew = reached < last
        if anew:
            self._rows.clear()
        if reached and (anew or reached > last) and isinstance(record, dict):
            row = {text(key): number(value) for key, value in list(record.items())[:200]}
            self._rows.append({**row, "round": reached})
            del self._rows[: -10 * MOST_POINTS]
        return anew

    def _fetched(self) -> dict[str, Any] | None:
        """The newest status; a redirection is not followed, and a longer answer is none."""
        kind = http.client.HTTPSConnection if self._where.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._where.hostname or "", self._where.port, timeout=_WAITED_S)
        try:
            connection.request("GET", "/status")
            answer = connection.getresponse()
            return parsed(answer.read(_LARGEST_BYTES)) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def state(self) -> str:
        """Whether it answers and goes on."""
        done, total = whole(self._status.get("round")), whole(self._status.get("rounds"))
        if done >= total > 0:
            return "done"
        if time.monotonic() - self._heard_s > _GONE_S:
            return "stopped" if self._status else "waiting"
        return "running"

    def told(self) -> dict[str, Any]:
        """For the list of runs; what a cloud does not say over HTTP is absent."""
        self.refresh()
        rows = self._status.get("nodes")
        nodes = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        ues = sum(str(row.get("node", "")).startswith("ue") for row in nodes)
        unknown = dict.fromkeys(("bandwidth_hz", "target_accuracy"))
        return {
            "id": self.id,
            "name": text(self._where.netloc),
            "title": text(f"cloud at {self._where.netloc}"),
            "kind": "deployed",
            "group": self.id,
            "seed": 0,
            "num_edges": max(len(nodes) - 1 - ues, 0),
            "num_ues": ues,
            "rounds": whole(self._status.get("round")),
            "total_rounds": whole(self._status.get("rounds")),
            "state": self.state(),
            "planner": "",
            "dataset": "",
            "spectrum": "",
            "downlink": "",
            "evaluated_every": 1,
            "clock_s": self._rows[-1].get("time_s") if self._rows else 0.0,
            **unknown,
        }

    def columns(self, first: int | None = None, last: int | None = None) -> dict[str, Any]:
        """The rounds that were heard of, the newest of them where they are too many."""
        with self.lock:
            self.refresh()
            rows = [row for row in self._rows if (first or 0) <= row["round"] <= (last or row["round"])]
            return {"count": self.count, "stride": 1, "evaluated": [], "columns": _columns(rows[-MOST_POINTS:])}

    def rows(self, first: int, last: int) -> dict[str, list[float | None]]:
        """Rounds by their place among those heard of, from 1."""
        return _columns(self._rows[first - 1 : last])

    def nodes(self) -> dict[str, Any] | None:
        """The rows of the cloud's board as columns."""
        self.refresh()
        return node_columns(self._status) if self._status else None


def _columns(rows: list[RoundRow]) -> dict[str, list[float | None]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
