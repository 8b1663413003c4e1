"""Serves the page: which address, with which certificate and token, until somebody ends it."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from hpfl.watch.app import make_app
from hpfl.watch.guard import SHORTEST_TOKEN, new_token
from hpfl.watch.page_answers import FolderAnswers
from hpfl.watch.shown import WatchError

USUAL_PORT = 8765
_TRIED_PORTS = 20


@dataclass(frozen=True, kw_only=True)
class PageAddress:
    """Where the page is served: `port` None is the first free one from the usual on, 0 any."""

    host: str = "127.0.0.1"
    port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    token: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    def checked(self) -> "PageAddress":
        """The same with a token where one is wanted; what is not safe is refused."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise WatchError("--tls-cert and --tls-key go together; one of them is missing")
        for path in (self.tls_cert, self.tls_key):
            if path is not None and not path.is_file():
                raise WatchError(f"{path} is not a file; wanted a certificate and its key in PEM")
        if not self.is_local and self.tls_cert is None:
            raise WatchError(
                f"--host {self.host} can be reached from other machines, which needs --tls-cert and --tls-key; "
                "or leave --host out and look through ssh -L"
            )
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise WatchError(f"--token has {len(self.token)} letters; wanted at least {SHORTEST_TOKEN}")
        token = self.token or ("" if self.is_local else new_token())
        return PageAddress(host=self.host, port=self.port, tls_cert=self.tls_cert, tls_key=self.tls_key, token=token)


class PageServer:
    """A server that listens from the moment it is made; `serve` answers until `stop`."""

    def __init__(self, answers: FolderAnswers, place: PageAddress) -> None:
        self._place = place.checked()
        self._socket = _listening(self._place)
        port = self._socket.getsockname()[1]
        names = {"localhost", "127.0.0.1", "[::1]"} | {_bracketed(self._place.host)}
        hosts = frozenset(f"{name}:{port}".lower() for name in names) if self._place.is_local else None
        secure = self._place.tls_cert is not None
        app = make_app(
            answers,
            hosts=hosts,
            token=self._place.token or "",
            secure=secure,
            is_over=lambda: self._server.should_exit,
        )
        self._origin = f"{'https' if secure else 'http'}://{_bracketed(_seen(self._place.host))}:{port}/"
        self._server = uvicorn.Server(_settings(app, self._place))

    @property
    def address(self) -> str:
        """What to open in a browser, with the token where there is one."""
        return f"{self._origin}?token={self._place.token}" if self._place.token else self._origin

    def serve(self) -> None:
        """Answer until Ctrl-C, SIGTERM or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `serve` soon; may be called from any thread."""
        self._server.should_exit = True


def _settings(app: Any, place: PageAddress) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        server_header=False,
        limit_concurrency=128,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        ssl_certfile=place.tls_cert,
        ssl_keyfile=place.tls_key,
    )


def _listening(place: PageAddress) -> socket.socket:
    """A socket at the place's address; where no port was asked for, the first that is free from the usual on."""
    usual = place.port is None
    wanted = range(USUAL_PORT, USUAL_PORT + _TRIED_PORTS) if place.port is None else (place.port,)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    for port in wanted:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((place.host.strip("[]"), port))
            bound.listen(64)
        except OSError as error:
            bound.close()
            if not usual:
                raise WatchError(f"{place.host}:{port} cannot be listened at: {error.strerror}") from None
            continue
        return bound
    raise WatchError(f"ports {wanted[0]} to {wanted[-1]} of {place.host} are all taken; name another with --port")


def _bracketed(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


def _seen(host: str) -> str:
    """By which name others reach an address that stands for all."""
    return socket.gethostname() if host in {"0.0.0.0", "::"} else host
