"""Hosts with addresses of their own: network namespaces on a switch that delays, loses and cuts what passes.

The switch is a thread that carries Ethernet frames between one TAP device a host. It does what `tc netem` does, also
where the kernel has no netem. Needs root, `ip`, and /dev/net/tun.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST_FRAME = 2048
_EVERYBODY = b"\xff" * 6


def why_not():
    """Why hosts cannot be made here; empty where they can."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "there is no `ip` (package iproute2)"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is not there, or not ours"
    name = f"hpfl-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces may not be made: {made.stderr.strip()}"
    try:
        os.close(_tap(f"probe{os.getpid() % 100000}"))
    except OSError as error:
        return f"TAP devices may not be made: {error.strerror}"
    finally:
        _ip("netns", "del", name)
    return ""


class Hosts:
    """Namespaces by name with an address each; frames between them take `delay_s` and are lost with chance `loss`."""

    def __init__(self, addresses, *, delay_s=0.0, loss=0.0, seed=0):
        self.addresses, self.delay_s, self.loss = dict(addresses), delay_s, loss
        self.cut = set()
        self.lost = self.passed = 0
        self._draw = random.Random(seed)
        self._own = f"hpfl-{os.getpid()}"
        self._taps = {}
        self._over = threading.Event()
        self._switch = threading.Thread(target=self._carry, daemon=True, name="switch")

    def __enter__(self):
        for number, (host, address) in enumerate(self.addresses.items()):
            space, device = self.space(host), f"hp{os.getpid() % 100000}t{number}"
            _ip("netns", "add", space)
            self._taps[host] = _tap(device)
            _ip("link", "set", device, "netns", space)
            for words in (f"link set {device} name eth0", f"addr add {address}/16 dev eth0", "link set eth0 up"):
                _ip("-n", space, *words.split())
            _ip("-n", space, "link", "set", "lo", "up")
        self._switch.start()
        return self

    def __exit__(self, *exit_info):
        self._over.set()
        if self._switch.is_alive():
            self._switch.join(5)
        for host, tap in self._taps.items():
            os.close(tap)
            _ip("netns", "del", self.space(host))

    def space(self, host):
        """The namespace of a host."""
        return f"{self._own}-{host}"

    def _carry(self):
        """Pass frames on until it is over; a frame's sender is remembered by its hardware address."""
        hosts = {tap: host for host, tap in self._taps.items()}
        where, late, count = {}, [], 0
        while not self._over.is_set():
            wait_s = 0.05 if not late else min(max(late[0][0] - time.monotonic(), 0.0), 0.05)
            for tap in select.select(list(hosts), [], [], wait_s)[0]:
                frame = os.read(tap, _LARGEST_FRAME)
                where[frame[6:12]] = tap
                if self._is_lost(hosts[tap]):
                    continue
                count += 1
                heapq.heappush(late, (time.monotonic() + self.delay_s, count, tap, frame))
            while late and late[0][0] <= time.monotonic():
                _, _, source, frame = heapq.heappop(late)
                goal = where.get(frame[:6])
                for tap in hosts if goal is None or frame[:6] == _EVERYBODY else (goal,):
                    if tap != source and hosts[tap] not in self.cut:
                        _written(tap, frame)

    def _is_lost(self, host):
        if host in self.cut or self._draw.random() < self.loss:
            self.lost += 1
            return True
        self.passed += 1
        return False


def run_on_host(space, log, arguments):
    """In a process of its own: enter a namespace and be `hpfl ARGUMENTS` there; output goes to `log`."""
    os.setsid()
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    descriptor = os.open(f"/var/run/netns/{space}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(descriptor)
    os.environ |= {"OMP_NUM_THREADS": "1", "HPFL_SUPERVISOR": str(os.getppid())}
    sys.argv = ["hpfl", *arguments]
    from hpfl.cli import main

    main()


def _tap(device):
    """A new TAP device; it goes when the descriptor is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", device.encode(), _IFF_TAP | _IFF_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _written(tap, frame):
    try:
        os.write(tap, frame)
    except OSError:  # the device is down, or its queue is full: a frame is lost, as on any network
        return


def _ip(*words):
    subprocess.run([shutil.which("ip"), *words], check=True, capture_output=True)


def logs_of(folder):
    """All nodes' logs, for a failure's message."""
    return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(Path(folder).glob("*.jsonl")))
