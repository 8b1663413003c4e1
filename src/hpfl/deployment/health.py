"""What a node answers over HTTP about itself: `/metrics` for Prometheus, `/healthz` and `/readyz` for a supervisor,
and at a cloud `/status` for `hpfl watch`: its nodes and its last round, as JSON.
"""

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from hpfl.deployment.settings import SettingsError

_LAST_PORT = 65535
_ANSWER_S = 5.0
"""How long a node's event loop may take to answer before the node counts as stuck."""
_REQUEST_S = 10.0
"""How long a connection to this server may say nothing."""

Readiness = Callable[[], tuple[bool, str]]
"""Whether a node does its part, and in a few words what it does or waits for; called on the node's event loop."""


@dataclass(frozen=True)
class Health:
    """How a node is asked, from another thread, whether it is alive and ready."""

    loop: asyncio.AbstractEventLoop
    ready: Readiness

    def asked(self) -> tuple[bool, bool, str]:
        """Whether the node answers, whether it is ready, and what it says."""
        answer: Future[tuple[bool, str]] = Future()

        def look() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self.ready())

        try:
            self.loop.call_soon_threadsafe(look)
            ready, told = answer.result(_ANSWER_S)
        except (TimeoutError, RuntimeError):
            answer.cancel()
            return False, False, f"the node has not answered for {_ANSWER_S:g} s"
        return True, ready, told


def serve_status(
    address: str, registry: CollectorRegistry, health: Health | None, status: Callable[[], str] | None = None
) -> Callable[[], None] | None:
    """Answer at `host:port` from a thread; how to stop it. Nothing for an empty address."""
    if not address:
        return None
    host, port = host_and_port(address, "metrics")
    try:
        server = make_server(host, port, _answers(registry, health, status), _Threads, handler_class=_Silent)
    except OSError as error:
        raise SettingsError(f"metrics cannot be served at {address}: {error.strerror}") from None
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop


def host_and_port(address: str, name: str) -> tuple[str, int]:
    """The two parts of `host:port`; `name` is the key that a refusal names."""
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        raise SettingsError(f"{name} is {address!r}; wanted host:port, with a port from 0 to {_LAST_PORT}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _answers(registry: CollectorRegistry, health: Health | None, status: Callable[[], str] | None) -> Any:
    metrics: Any = make_wsgi_app(registry)

    def answer(request: dict[str, Any], begin: Any) -> Iterable[bytes]:
        path = request.get("PATH_INFO", "")
        if path in {"/healthz", "/readyz"}:
            ok, told = _told(path, health)
            begin("200 OK" if ok else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{told}\n".encode()]
        if path == "/status" and status is not None:
            begin("200 OK", [("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff")])
            return [status().encode()]
        answered: Iterable[bytes] = metrics(request, begin)
        return answered

    return answer


def _told(path: str, health: Health | None) -> tuple[bool, str]:
    alive, ready, told = (True, True, "ready") if health is None else health.asked()
    return (alive, "ok" if alive else told) if path == "/healthz" else (ready, told)


class _Threads(socketserver.ThreadingMixIn, WSGIServer):
    """One thread for each request, none of which keeps the process alive."""

    daemon_threads = True


class _Silent(WSGIRequestHandler):
    """Logs nothing, and waits for nobody for ever."""

    timeout = _REQUEST_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base class's
        """Say nothing: a probe every few seconds would fill the log."""
