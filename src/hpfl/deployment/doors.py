"""Who may hold what of a server: so many streams by name, connections without a child's stream not for long."""

import asyncio
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.settings import LimitSettings

STREAMS_BY_NAME = 4
"""One that trains, one that replaces it, and two visits."""

_SPARE = 16
_FOLDER = Path("/proc/self/fd")
_LOOKS, _MOST_LOOK_S = 4, 5.0

T = TypeVar("T")
SocketPlace = tuple[str, int]
"""Address and port of the other end of a connection."""


class Doors:
    """Counts the streams of one server by name, and closes connections that carry none for `limits.handshake_s`.

    gRPC has no means to close a connection, nor to count those of one address: its sockets are looked at from outside.
    Where a system does not list them (elsewhere than on Linux), only gRPC's own time-outs hold.
    """

    def __init__(self, roster: Mapping[str, int], limits: LimitSettings) -> None:
        self._roster, self._limits = roster, limits
        self._streams: Counter[str] = Counter()
        self._carrying: Counter[SocketPlace] = Counter()
        self._since_s: dict[SocketPlace, float] = {}
        self._sockets = OpenSockets()

    @contextmanager
    def room(self, name: str, peer: str) -> Iterator[None]:
        """The place of one stream of a child; refuses who holds enough of them already."""
        if self._streams[name] >= STREAMS_BY_NAME:
            raise RefusedError("crowded", f"{name!r} has {STREAMS_BY_NAME} streams already")
        place = place_of(peer)
        self._streams[name] += 1
        self._carrying[place] += 1
        try:
            yield
        finally:
            _one_less(self._streams, name)
            _one_less(self._carrying, place)

    async def watch(self, port: int) -> None:
        """Close idle and crowding connections at a port, again and again, until cancelled."""
        while _FOLDER.is_dir():
            await asyncio.sleep(min(self._limits.handshake_s / _LOOKS, _MOST_LOOK_S))
            with suppress(OSError):  # no descriptor is left to look with; later there is
                self._look(port, asyncio.get_running_loop().time())

    def _look(self, port: int, now_s: float) -> None:
        numbers = {place: number for number, place in self._sockets.at(port) if place not in self._carrying}
        self._since_s = {place: self._since_s.get(place, now_s) for place in numbers}
        for place in self._unwelcome(now_s):
            _shut(numbers[place], place)

    def _unwelcome(self, now_s: float) -> list[SocketPlace]:
        """Those who have had time enough, and of each address those that came after too many others."""
        most = self._limits.per_address or 2 * len(self._roster) + _SPARE
        by_address: dict[str, list[SocketPlace]] = defaultdict(list)
        for place in sorted(self._since_s, key=lambda one: self._since_s[one]):
            by_address[place[0]].append(place)
        crowding = [place for places in by_address.values() for place in places[most:]]
        overdue = [place for place, since_s in self._since_s.items() if now_s - since_s > self._limits.handshake_s]
        unwelcome = list({*crowding, *overdue})
        for address, count in Counter(place[0] for place in unwelcome).items():
            log("connections closed", peer=address, connections=count)
        return unwelcome


class OpenSockets:
    """This process's accepted connections; of each it asks the system once, not at every look."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], SocketPlace | None] = {}

    def at(self, port: int) -> list[tuple[int, SocketPlace]]:
        """The connections at a port: their numbers among this process's files, and who is at the other end."""
        there = dict(_socket_links())
        self._known = {link: self._known[link] for link in self._known.keys() & there.items()}
        for link in there.items() - self._known.keys():
            with suppress(OSError), _copied(int(link[0])) as held:  # gRPC may close it meanwhile
                self._known[link] = _other_end(held) if held.getsockname()[1:2] == (port,) else None
        return [(int(number), place) for (number, _), place in self._known.items() if place is not None]


def _socket_links() -> Iterator[tuple[str, str]]:
    """Numbers of open files that are sockets, and the name of each socket, which no other bears while it is open."""
    for file in list(_FOLDER.iterdir()):
        with suppress(OSError):  # gRPC may close it meanwhile
            link = str(file.readlink())
            if link.startswith("socket:"):
                yield file.name, link


def _one_less(counts: Counter[T], key: T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def place_of(peer: str) -> SocketPlace:
    """Address and port of what gRPC calls a peer: `ipv4:10.0.0.1:4711`, `ipv6:%5B::1%5D:4711`."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return (_address(address.strip("[]")), int(port)) if port.isdigit() else (peer, 0)


def _address(text: str) -> str:
    """One spelling for one address, also of an IPv4 address inside an IPv6 one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(inner or address)


def _shut(number: int, place: SocketPlace) -> None:
    """End a connection, unless another one has taken its number by now."""
    with suppress(OSError), _copied(number) as held:
        if _other_end(held) == place:
            held.shutdown(socket.SHUT_RDWR)


def _copied(number: int) -> socket.socket:
    """A handle of its own: what is looked at cannot become another connection."""
    copy = os.dup(number)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _other_end(held: socket.socket) -> SocketPlace | None:
    if held.family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    there = held.getpeername()
    return _address(there[0]), there[1]
