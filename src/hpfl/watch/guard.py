"""Who may ask, and what every answer says of itself: read-only, of one host, with a token where that is wanted."""

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from hpfl.watch.shown import as_json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)
COOKIE = "hpfl-watch"
SHORTEST_TOKEN = 16

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


class Guard:
    """Stands before an application: other methods than GET, other hosts and wrong tokens do not reach it.

    `hosts` are the values of the Host header that are meant for it (None: any; a token keeps others out then), without
    which a page from elsewhere could have its own name point here and read the answers.
    """

    def __init__(self, app: Asgi, *, hosts: frozenset[str] | None, token: str = "", secure: bool = False) -> None:
        self._app, self._hosts, self._token, self._secure = app, hosts, token, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse in one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refused = self._refusal(scope, headers)
        cookie = b"" if refused else self._cookie(scope)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", ())}
                extra = [pair for pair in HEADERS if pair[0] not in own]
                extra += [(b"set-cookie", cookie)] if cookie else []
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        if refused:
            await _say(dressed, *refused)
        else:
            await self._app(scope, receive, dressed)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "this page only shows: GET is the only method"
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and host not in self._hosts:
            return 421, "this address is not the one that the page is served at"
        if self._token and not any(self._is_token(given) for given in self._given(scope, headers)):
            return 401, "a token is wanted: open the address with ?token=... as hpfl watch has printed it"
        return None

    def _given(self, scope: Scope, headers: dict[bytes, bytes]) -> list[str]:
        """Every token that a request brings."""
        kind, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = [value.strip()] if kind.lower() == "bearer" else []
        try:
            jar = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            jar = SimpleCookie()
        return [*found, *([jar[COOKIE].value] if COOKIE in jar else []), *_asked(scope)]

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _cookie(self, scope: Scope) -> bytes:
        """Sets the token that came in the address as a cookie, so that it is needed there once."""
        if not self._token or not any(map(self._is_token, _asked(scope))):
            return b""
        secure = "; Secure" if self._secure else ""
        return f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict{secure}".encode()


def _asked(scope: Scope) -> list[str]:
    try:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
    except ValueError:
        return []
    return asked.get("token", [])


async def _say(send: Send, status: int, sentence: str) -> None:
    kind = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": as_json({"error": sentence})})
